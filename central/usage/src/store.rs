//! A store: what it has, and how receipts come into it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::{Name, Revision, UserHash};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use wire::ledger::{Charge, Receipt};

use crate::coverage::Coverage;
use crate::dimensions::{self, Dimensions};
use crate::schema::{self, PLACE_BITS};
use crate::sums::{Sums, number};
use crate::{Batch, Span, StoreError, Total};

/// Numbers of dimensions and edges that are kept in memory.
const MAX_KNOWN: usize = 65_536;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, and in two beside it.
    File(PathBuf),
    /// In memory, gone with the process.
    Memory,
}

/// The store of one node; there is one writer of a file at a time.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: View,
    pub(crate) coverage: Coverage,
    /// Receipts of entries up to here are forgotten; `base` holds their sums.
    pub(crate) pruned: Revision,
    pub(crate) known: Known,
}

/// Numbers given to dimensions and edges.
#[derive(Debug, Default)]
pub(crate) struct Known {
    dims: BTreeMap<Dimensions, i64>,
    edges: BTreeMap<Name, i64>,
}

/// A connection to a store, for questions.
#[derive(Debug)]
pub struct View(pub(crate) Connection);

impl Store {
    /// Opens the store at `place`, or makes a new one.
    ///
    /// # Errors
    /// [`StoreError`]; a damaged file or a newer build's is never written to.
    pub fn open(place: &Place) -> Result<Self, StoreError> {
        let mut connection = match place {
            Place::File(path) => Connection::open(path)?,
            Place::Memory => Connection::open_in_memory()?,
        };
        schema::for_writing(&connection)?;
        schema::prepare(&mut connection)?;
        let (coverage, pruned) = coverage(&connection)?;
        Ok(Self { connection: View(connection), coverage, pruned, known: Known::default() })
    }

    /// The last entry of the log that this store knows of.
    #[must_use]
    pub const fn head(&self) -> Revision {
        self.coverage.head
    }

    /// Entries up to the head whose receipts this store lacks, in order.
    #[must_use]
    pub fn missing(&self) -> &[Span] {
        &self.coverage.missing
    }

    /// Receipts of entries up to here are forgotten; their sums are kept.
    #[must_use]
    pub const fn pruned(&self) -> Revision {
        self.pruned
    }

    /// Takes all receipts of the entries in `span`: `batches`, in order. What the store has already is passed over, and
    /// entries between its head and `span` are missing from then on. Everything is on the disk when this returns, or
    /// nothing is. Gives back how many receipts were new.
    ///
    /// # Errors
    /// [`StoreError`]: the store is as it was.
    pub fn append(&mut self, span: Span, batches: &[Batch]) -> Result<usize, StoreError> {
        let lacking = self.coverage.lacking(&span);
        let coverage = self.coverage.with(&span);
        if coverage == self.coverage {
            return Ok(0);
        }
        let fresh: Vec<&Batch> =
            batches.iter().filter(|batch| lacking.iter().any(|part| part.holds(batch.revision))).collect();
        let written = self.write(&fresh, &coverage);
        if written.is_err() {
            // Numbers given in a transaction that was undone stand for nothing.
            self.known = Known::default();
        }
        let count = written?;
        self.coverage = coverage;
        Ok(count)
    }

    fn write(&mut self, batches: &[&Batch], coverage: &Coverage) -> Result<usize, StoreError> {
        let transaction = self.connection.0.transaction()?;
        let mut sums = Sums::default();
        let mut count = 0;
        if !batches.is_empty() {
            let mut insert = Insert::new(&transaction, &mut self.known)?;
            for batch in batches {
                for (place, (edge, receipt)) in (first_place(batch.revision)..).zip(&*batch.receipts) {
                    let taken = number(batch.taken.as_millis());
                    let dims = insert.receipt(place, taken, edge, receipt)?;
                    sums.add(receipt.at.as_millis(), dims, &Total::of(receipt), taken);
                    count += 1;
                }
            }
        }
        sums.write(&transaction, "hours")?;
        save(&transaction, coverage, self.pruned)?;
        transaction.commit()?;
        Ok(count)
    }

    /// The store's own connection, for questions.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.connection
    }
}

impl View {
    /// A connection to the store in the file `path`, to ask while the store is written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        schema::for_reading(&connection)?;
        Ok(Self(connection))
    }
}

impl Known {
    /// The number of `dims`, given now if it has none.
    pub(crate) fn dims(&mut self, connection: &Connection, dims: Dimensions) -> Result<i64, StoreError> {
        if let Some(known) = self.dims.get(&dims) {
            return Ok(*known);
        }
        let mut find = connection.prepare_cached(
            "SELECT id FROM dims WHERE kind = ? AND tenant = ? AND app = ? AND key = ? AND model = ? AND provider = ?
             AND region = ? AND served_by = ? AND operation = ? AND outcome = ? AND code = ? AND provider_key = ?
             AND scenario = ?",
        )?;
        let found = find.query_row(dims.columns(), |row| row.get(0));
        let id = match found.optional()? {
            Some(id) => id,
            None => {
                let columns = dimensions::COLUMNS;
                let insert =
                    format!("INSERT INTO dims ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
                connection.execute(&insert, dims.columns())?;
                connection.last_insert_rowid()
            }
        };
        if self.dims.len() >= MAX_KNOWN {
            self.dims.clear();
        }
        self.dims.insert(dims, id);
        Ok(id)
    }

    fn edge(&mut self, connection: &Connection, edge: &Name) -> Result<i64, StoreError> {
        if let Some(known) = self.edges.get(edge) {
            return Ok(*known);
        }
        connection.execute("INSERT INTO edges (name) VALUES (?) ON CONFLICT DO NOTHING", [edge.as_str()])?;
        let find = "SELECT id FROM edges WHERE name = ?";
        let id = connection.query_row(find, [edge.as_str()], |row| row.get(0))?;
        if self.edges.len() >= MAX_KNOWN {
            self.edges.clear();
        }
        self.edges.insert(edge.clone(), id);
        Ok(id)
    }
}

/// Writes receipts in one transaction.
struct Insert<'a> {
    connection: &'a Connection,
    statement: rusqlite::CachedStatement<'a>,
    known: &'a mut Known,
    charges: String,
}

impl<'a> Insert<'a> {
    fn new(connection: &'a Connection, known: &'a mut Known) -> Result<Self, StoreError> {
        let statement = connection.prepare_cached(
            "INSERT INTO receipts (place, taken, at, request, edge, dims, attempts, estimated, input, cached_input,
             output, cost, charges, cache_write, audio_input, reasoning, audio_output, images, busy_ms, price_from, user)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        Ok(Self { connection, statement, known, charges: String::new() })
    }

    /// Gives back the number of the receipt's dimensions.
    fn receipt(&mut self, place: i64, taken: i64, edge: &Name, receipt: &Receipt) -> Result<i64, StoreError> {
        let dims = self.known.dims(self.connection, Dimensions::of(receipt))?;
        let edge = self.known.edge(self.connection, edge)?;
        spell(&receipt.charges, &mut self.charges);
        let usage = &receipt.usage;
        self.statement.execute(params![
            place,
            taken,
            number(receipt.at.as_millis()),
            receipt.request.0.to_be_bytes(),
            edge,
            dims,
            receipt.attempts,
            receipt.estimated,
            number(usage.input.0),
            number(usage.cached_input.0),
            number(usage.output.0),
            number(receipt.cost.0),
            &self.charges,
            number(usage.cache_write.0),
            number(usage.audio_input.0),
            number(usage.reasoning.0),
            number(usage.audio_output.0),
            usage.images,
            usage.busy_ms,
            receipt.price_from.map(|from| number(from.as_millis())),
            receipt.user.map(user_number),
        ])?;
        Ok(dims)
    }
}

/// A user's hash as the database holds it, bit for bit.
pub(crate) const fn user_number(user: UserHash) -> i64 {
    user.0.cast_signed()
}

/// Charges as JSON: budget, window, amount and overrun of each.
fn spell(charges: &[Charge], out: &mut String) {
    out.clear();
    out.push('[');
    for (at, charge) in charges.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let Charge { budget, window, amount, overrun } = charge;
        // Writing to a string cannot fail.
        let _infallible = write!(out, "{comma}[{budget},{window},{},{}]", amount.0, overrun.0);
    }
    out.push(']');
}

/// The place of an entry's first receipt.
pub(crate) fn first_place(of: Revision) -> i64 {
    number(of.0).saturating_mul(1 << PLACE_BITS)
}

/// The entry of a place.
pub(crate) fn entry_of(place: i64) -> Revision {
    Revision((place >> PLACE_BITS).unsigned_abs())
}

pub(crate) fn coverage(connection: &Connection) -> Result<(Coverage, Revision), StoreError> {
    let (head, pruned): (i64, i64) =
        connection.query_row("SELECT head, pruned FROM meta", (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((Coverage { head: revision(head), missing: missing(connection)? }, revision(pruned)))
}

pub(crate) fn save(connection: &Connection, coverage: &Coverage, pruned: Revision) -> Result<(), StoreError> {
    let mut update = connection.prepare_cached("UPDATE meta SET head = ?, pruned = ?")?;
    update.execute([number(coverage.head.0), number(pruned.0)])?;
    if missing(connection)? != coverage.missing {
        connection.execute("DELETE FROM missing", ())?;
        let mut insert = connection.prepare("INSERT INTO missing VALUES (?, ?)")?;
        for span in &coverage.missing {
            insert.execute([number(span.after.0), number(span.upto.0)])?;
        }
    }
    Ok(())
}

fn missing(connection: &Connection) -> Result<Vec<Span>, StoreError> {
    let mut select = connection.prepare_cached("SELECT after, upto FROM missing ORDER BY after")?;
    let spans = select.query_map((), |row| Ok(Span::new(revision(row.get(0)?), revision(row.get(1)?))))?;
    Ok(spans.collect::<Result<_, _>>()?)
}

pub(crate) const fn revision(number: i64) -> Revision {
    Revision(number.unsigned_abs())
}
