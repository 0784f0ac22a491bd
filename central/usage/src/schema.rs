//! The database's tables, and how a connection to it is set up.
//!
//! Numbers are 64-bit and signed; money is nano-dollars, times are milliseconds since 1970. A receipt's `place` is its
//! entry's index in the log times 2²⁰ plus its order in the entry, so that the table is written at its end only.

use rusqlite::Connection;

use crate::StoreError;

/// The format that this build writes.
pub(crate) const FORMAT: i64 = 4;

/// Bits of a place that count receipts of one entry. An entry is smaller than 16 MiB, a receipt larger than 16 bytes.
pub(crate) const PLACE_BITS: u32 = 20;

/// How long a connection waits for another one's lock, in milliseconds. Only checkpoints and recovery take one.
const BUSY_MS: u64 = 5_000;

/// `dims` holds each combination of dimensions once. `hours` are the
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

/// From format 1 to 2: kinds of tokens, pieces, and the price a receipt was computed with. Of older receipts they are not
/// known.
const KINDS: &str = "
ALTER TABLE receipts ADD COLUMN cache_write INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN audio_input INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN audio_output INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN images INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN busy_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE receipts ADD COLUMN price_from INTEGER;
";

/// From format 2 to 3: the provider's key is one of the dimensions, which no older receipt knows. What makes a combination
/// unique cannot be altered in place.
const PROVIDER_KEYS: &str = "
ALTER TABLE dims RENAME TO dims_2;
CREATE TABLE dims (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, tenant TEXT NOT NULL, app TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    provider TEXT NOT NULL, region TEXT NOT NULL, served_by TEXT NOT NULL, operation TEXT NOT NULL,
    outcome TEXT NOT NULL, code TEXT NOT NULL, provider_key TEXT NOT NULL,
    UNIQUE (tenant, app, key, model, provider, region, served_by, operation, outcome, code, kind, provider_key)
);
INSERT INTO dims SELECT *, '' FROM dims_2;
DROP TABLE dims_2;
";

/// From format 3 to 4: the scenario is one of the dimensions, and a receipt knows its end user.
const SCENARIOS: &str = "
ALTER TABLE dims RENAME TO dims_3;
CREATE TABLE dims (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, tenant TEXT NOT NULL, app TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    provider TEXT NOT NULL, region TEXT NOT NULL, served_by TEXT NOT NULL, operation TEXT NOT NULL,
    outcome TEXT NOT NULL, code TEXT NOT NULL, provider_key TEXT NOT NULL, scenario TEXT NOT NULL,
    UNIQUE (tenant, app, key, model, provider, region, served_by, operation, outcome, code, kind, provider_key, scenario)
);
INSERT INTO dims SELECT *, '' FROM dims_3;
DROP TABLE dims_3;
ALTER TABLE receipts ADD COLUMN user INTEGER;
CREATE INDEX receipts_user ON receipts (user, at) WHERE user IS NOT NULL;
";

/// What brings a database from each format to the next.
const STEPS: [&str; 3] = [KINDS, PROVIDER_KEYS, SCENARIOS];

const SUMS: [&str; 3] = ["hours", "base", "incoming"];

/// Makes the tables of a new database, or brings an older one's to this format; refuses a newer build's.
pub(crate) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", (), |row| row.get(0))?;
    if found == FORMAT {
        return Ok(());
    }
    let passed = usize::try_from(found.max(1) - 1).ok().filter(|_known| found < FORMAT);
    let passed = passed.ok_or(StoreError::Newer { found, known: FORMAT })?;
    let transaction = connection.transaction()?;
    if found == 0 {
        first(&transaction)?;
    }
    for step in STEPS.iter().skip(passed) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(())
}

/// The tables of format 1.
fn first(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(TABLES)?;
    for table in SUMS {
        connection.execute_batch(&format!(
            "CREATE TABLE {table} (
                 hour INTEGER NOT NULL, dims INTEGER NOT NULL, last INTEGER NOT NULL,
                 calls INTEGER NOT NULL, attempts INTEGER NOT NULL, estimated INTEGER NOT NULL,
                 input INTEGER NOT NULL, cached_input INTEGER NOT NULL, output INTEGER NOT NULL, cost INTEGER NOT NULL,
                 PRIMARY KEY (hour, dims)
             ) WITHOUT ROWID;"
        ))?;
    }
    connection.execute_batch("CREATE INDEX hours_dims ON hours (dims);")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_totals_and_receipts_of_the_format_before_stay_what_they_were() {
        let mut connection = Connection::open_in_memory().unwrap();
        first(&connection).unwrap();
        STEPS.iter().take(2).for_each(|step| connection.execute_batch(step).unwrap());
        connection
            .execute_batch(
                "INSERT INTO dims VALUES (7, 'call', 't', 'a', 'k', 'm', 'p', 'r', 's', 'chat', 'complete', '', 'one');
                 INSERT INTO edges VALUES (1, 'e');
                 INSERT INTO hours VALUES (3, 7, 2, 1, 1, 0, 9, 4, 5, 6);
                 INSERT INTO receipts VALUES (1, 2, 3, zeroblob(16), 1, 7, 1, 0, 9, 4, 5, 6, '[]', 0, 0, 0, 0, 0, 0, NULL);
                 PRAGMA user_version = 3;",
            )
            .unwrap();
        prepare(&mut connection).unwrap();
        let view = crate::View(connection);
        let (edge, receipt) = view.receipts_of(base::RequestId(0), 9).unwrap().remove(0);
        assert_eq!((edge.as_str(), receipt.scenario, receipt.user), ("e", None, None));
        assert_eq!(receipt.provider_key, Some("one".parse().unwrap()));
        let by = vec![crate::Dimension::Tenant, crate::Dimension::ProviderKey, crate::Dimension::Scenario];
        let totals = view.totals(&crate::Question { by, limit: 9, ..crate::Question::default() }).unwrap();
        assert_eq!(totals.groups[0].values, ["t", "one", ""]);
        assert_eq!((totals.groups[0].total.calls, totals.groups[0].total.cost), (1, 6));
        let newer = Connection::open_in_memory().unwrap();
        newer.pragma_update(None, "user_version", FORMAT + 1).unwrap();
        assert_eq!(prepare(&mut { newer }), Err(StoreError::Newer { found: FORMAT + 1, known: FORMAT }));
    }

    #[test]
    fn an_older_stores_receipts_are_kept_and_know_nothing_of_what_is_new() {
        let mut connection = Connection::open_in_memory().unwrap();
        first(&connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO dims VALUES (1, 'call', 't', 'a', 'k', 'm', 'p', 'r', 's', 'chat', 'complete', '');
                 INSERT INTO receipts VALUES (1, 2, 3, x'00', 1, 1, 1, 0, 9, 4, 5, 6, '[]'); PRAGMA user_version = 1;",
            )
            .unwrap();
        prepare(&mut connection).unwrap();
        prepare(&mut connection).unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: (i64, i64, Option<i64>) =
            connection.query_row("SELECT input, reasoning, price_from FROM receipts", (), read).unwrap();
        assert_eq!(found, (9, 0, None));
        let dims = "SELECT tenant, provider_key FROM dims JOIN receipts ON dims.id = receipts.dims";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: (String, String) = connection.query_row(dims, (), read).unwrap();
        assert_eq!(found, ("t".to_owned(), String::new()));
    }
}
