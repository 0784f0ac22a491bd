//! The database's tables, and how a connection to it is set up.
//!
//! Numbers are 64-bit and signed; money is nano-dollars, times are milliseconds since 1970. A receipt's `place` is its
//! entry's index in the log times 2²⁰ plus its order in the entry, so that the table is written at its end only.

use rusqlite::Connection;

use crate::StoreError;

/// The format that this build writes.
pub(crate) const FORMAT: i64 = 1;

/// Bits of a place that count receipts of one entry. An entry is smaller than 16 MiB, a receipt larger than 16 bytes.
pub(crate) const PLACE_BITS: u32 = 20;

/// How long a connection waits for another one's lock, in milliseconds. Only checkpoints and recovery take one.
const BUSY_MS: u64 = 5_000;

/// `dims` holds each combination of dimensions once; a dimension to come is a column with a default. `hours` are the
/// totals; `base` is the part of them whose receipts were forgotten, `incoming` another node's `base` on its way here.
const TABLES: &str = "
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 0), head INTEGER NOT NULL, pruned INTEGER NOT NULL);
INSERT INTO meta VALUES (0, 0, 0);
CREATE TABLE missing (after INTEGER PRIMARY KEY, upto INTEGER NOT NULL);
CREATE TABLE dims (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, tenant TEXT NOT NULL, app TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    provider TEXT NOT NULL, region TEXT NOT NULL, served_by TEXT NOT NULL, operation TEXT NOT NULL,
    outcome TEXT NOT NULL, code TEXT NOT NULL,
    UNIQUE (tenant, app, key, model, provider, region, served_by, operation, outcome, code, kind)
);
CREATE TABLE edges (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE receipts (
    place INTEGER PRIMARY KEY,
    taken INTEGER NOT NULL, at INTEGER NOT NULL, request BLOB NOT NULL, edge INTEGER NOT NULL, dims INTEGER NOT NULL,
    attempts INTEGER NOT NULL, estimated INTEGER NOT NULL, input INTEGER NOT NULL, cached_input INTEGER NOT NULL,
    output INTEGER NOT NULL, cost INTEGER NOT NULL, charges TEXT NOT NULL
);
CREATE INDEX receipts_at ON receipts (at);
CREATE INDEX receipts_request ON receipts (request);
";

const SUMS: [&str; 3] = ["hours", "base", "incoming"];

/// Makes the tables of a new database; refuses a newer build's.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    match found {
        0 => {}
        FORMAT => return Ok(()),
        _other => return Err(StoreError::Newer { found, known: FORMAT }),
    }
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    for table in SUMS {
        transaction.execute_batch(&format!(
            "CREATE TABLE {table} (
                 hour INTEGER NOT NULL, dims INTEGER NOT NULL, last INTEGER NOT NULL,
                 calls INTEGER NOT NULL, attempts INTEGER NOT NULL, estimated INTEGER NOT NULL,
                 input INTEGER NOT NULL, cached_input INTEGER NOT NULL, output INTEGER NOT NULL, cost INTEGER NOT NULL,
                 PRIMARY KEY (hour, dims)
             ) WITHOUT ROWID;"
        ))?;
    }
    transaction.execute_batch("CREATE INDEX hours_dims ON hours (dims);")?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

/// Sets up a connection that writes: each transaction is on the disk once it is committed.
pub(crate) fn for_writing(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16384;
         PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 67108864;",
    )?;
    Ok(())
}

/// Sets up a connection that only reads.
pub(crate) fn for_reading(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;")?;
    Ok(())
}
