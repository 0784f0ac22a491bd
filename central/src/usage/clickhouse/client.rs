//! What is said to the server, by its HTTP interface: queries as the body of a POST, rows as lines of JSON.

use std::time::Duration;

use base::Era;
use bytes::Bytes;
use egress::{Tls, Unfetched, fetch};
use http::{HeaderValue, Request, Response, StatusCode};
use seam::Host;
use usage_store::Parcel;

use super::ClickHouse;
use super::row;

/// How long the server may take for a batch.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// How much is told of what the server said, in characters.
const TOLD: usize = 300;
/// The table and the view of it that tells each receipt once.
const TABLES: &str = include_str!("receipts.sql");

/// Why the server did not do what it was asked. Never tells the password.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denied {
    #[error(
        "ClickHouse cannot be asked: {0}; where its certificate is of an authority of your own, `authorities` of \
         [usage.clickhouse] names that one's file"
    )]
    Insecure(Unfetched),
    #[error("ClickHouse cannot be asked: {0}")]
    Unfetched(Unfetched),
    #[error("ClickHouse gave no answer within {} s", ANSWER_WITHIN.as_secs())]
    Late,
    #[error("ClickHouse refused with {status}: {said}")]
    Refused { status: StatusCode, said: String },
    #[error("ClickHouse answered something else: {0:?}")]
    Else(String),
    #[error("the password file cannot be read: {0}")]
    Password(String),
    #[error("a receipt cannot be written as JSON")]
    Row(#[from] serde_json::Error),
}

impl From<Unfetched> for Denied {
    fn from(unfetched: Unfetched) -> Self {
        match unfetched {
            Unfetched::Insecure(_) => Self::Insecure(unfetched),
            Unfetched::Connect(_) | Unfetched::Broken | Unfetched::TooLong(_) | Unfetched::Path(_) => {
                Self::Unfetched(unfetched)
            }
        }
    }
}

/// Speaks to one server.
pub(super) struct Client {
    host: Host,
    options: ClickHouse,
    tls: Option<Tls>,
    /// Whether the server knows tokens of inserts.
    tokens: bool,
}

impl Client {
    pub(super) fn new(host: &Host, options: ClickHouse, tls: Option<Tls>) -> Self {
        Self { host: host.clone(), options, tls, tokens: false }
    }

    /// Makes the table where there is none, and asks what the server knows.
    pub(super) async fn prepare(&mut self) -> Result<(), Denied> {
        let tables = TABLES.replace("{table}", &self.table("")).replace("{view}", &self.table("_once"));
        for statement in tables.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            self.ask("/", statement.to_owned().into()).await?;
        }
        let known = "SELECT count() FROM system.settings WHERE name = 'insert_deduplication_token' FORMAT TabSeparated";
        self.tokens = self.number(known.into()).await? > 0;
        Ok(())
    }

    /// How many of a batch's receipts the server has.
    pub(super) async fn count(&self, era: Era, parcel: &Parcel) -> Result<u64, Denied> {
        let days = parcel.receipts.iter().map(|placed| row::day(placed.receipt.at));
        let (Some(first), Some(last)) = (days.clone().min(), days.max()) else { return Ok(0) };
        let table = self.table("");
        let (after, upto) = (parcel.after, parcel.upto);
        self.number(format!(
            "SELECT uniqExact(place) FROM {table} WHERE day >= '{first}' AND day <= '{last}' AND era = {era} \
             AND place > {after} AND place <= {upto} FORMAT TabSeparated"
        ))
        .await
    }

    /// Inserts a batch.
    pub(super) async fn insert(&self, era: Era, parcel: &Parcel) -> Result<(), Denied> {
        let batch = format!("{era}-{}-{}", parcel.after, parcel.upto);
        let mut body = format!("INSERT INTO {} FORMAT JSONEachRow\n", self.table("")).into_bytes();
        for placed in &parcel.receipts {
            row::write(&mut body, (era, &batch), placed)?;
        }
        let path = if self.tokens { format!("/?insert_deduplication_token={batch}") } else { "/".to_owned() };
        self.ask(&path, body.into()).await.map(drop)
    }

    async fn number(&self, query: String) -> Result<u64, Denied> {
        let answer = self.ask("/", query.into()).await?;
        let text = String::from_utf8_lossy(&answer);
        text.trim().parse().map_err(|_bad| Denied::Else(text.chars().take(TOLD).collect()))
    }

    fn table(&self, end: &str) -> String {
        format!("`{}`.`{}{end}`", self.options.database, self.options.table)
    }

    async fn ask(&self, path: &str, body: Bytes) -> Result<Bytes, Denied> {
        let password = self.password().await?;
        let mut request = Request::post(path).body(body).map_err(|error| Denied::Else(error.to_string()))?;
        let headers = request.headers_mut();
        if let Some(user) = &self.options.user {
            headers.insert("x-clickhouse-user", header(user)?);
        }
        if let Some(password) = &password {
            let mut key = header(password)?;
            key.set_sensitive(true);
            headers.insert("x-clickhouse-key", key);
        }
        let asking = fetch(&self.host, self.tls.as_ref(), &self.options.url, request, LONGEST);
        let answer = self.host.timeout(ANSWER_WITHIN, asking).await.map_err(|_late| Denied::Late)??;
        let failed = answer.headers().contains_key("x-clickhouse-exception-code");
        if answer.status().is_success() && !failed {
            return Ok(answer.into_body());
        }
        Err(refused(&answer, password.as_deref()))
    }

    async fn password(&self) -> Result<Option<String>, Denied> {
        let Some(file) = &self.options.password_file else { return Ok(None) };
        let read = self.host.disk().read(file).await;
        let read = read.map_err(|error| Denied::Password(format!("{}: {error}", file.display())))?;
        Ok(Some(String::from_utf8_lossy(&read).trim().to_owned()))
    }
}

fn header(text: &str) -> Result<HeaderValue, Denied> {
    let wrong = |_text| Denied::Password("the user or password cannot stand in a header".to_owned());
    HeaderValue::from_str(text).map_err(wrong)
}

/// What the server said, in a line.
fn refused(answer: &Response<Bytes>, password: Option<&str>) -> Denied {
    let text = String::from_utf8_lossy(answer.body());
    let text = match password.filter(|password| !password.is_empty()) {
        Some(password) => text.replace(password, "…"),
        None => text.into_owned(),
    };
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TOLD).collect();
    Denied::Refused { status: answer.status(), said }
}
