//! What was used, for operators: totals by any dimensions, and receipts one by one.
//!
//! Every parameter is read before anything is asked; the first that does not fit is named. Without parameters,
//! `GET /v1/usage` gives the totals that the replicated state keeps since the mesh began.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use base::{Name, RequestId, UserHash, WallMs};
use ring::digest;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use usage_store::{Dimension, Dimensions, Filter, Group, HOUR_MS, Listing, Mark, Question};
use wire::ledger::Receipt;

use super::refused::Refused;
use super::taken::Parameters;
use super::{Answer, Door, Shared, api};
use crate::usage::lacks;

/// Rows of a page, unless asked for others; and the most that can be asked for.
const ROWS: (usize, usize) = (1_000, 10_000);
/// The same of receipts.
const RECEIPTS: (usize, usize) = (100, 1_000);
const DAY_MS: u64 = 24 * HOUR_MS;

/// Parameters that both questions share.
#[derive(Debug, Default)]
struct Asked {
    by: Vec<Dimension>,
    filter: Filter,
    request: Option<RequestId>,
    limit: Option<usize>,
    cursor: Option<String>,
    partial: bool,
}

pub(super) async fn totals(State(door): Shared, Parameters(given): Parameters) -> Result<Response, Refused> {
    if given.is_empty() {
        return Ok(Json(since_the_beginning(&door).await?).into_response());
    }
    let asked = Asked::read(&given, door.host.wall())?;
    if asked.request.is_some() {
        return Err(Refused::bad_request("request is for GET /v1/receipts"));
    }
    let after = asked.cursor.map(|cursor| serde_json::from_str(&cursor)).transpose();
    let after = after.map_err(|_bad| Refused::bad_request("cursor is not one that an answer gave"))?;
    let (by, filter) = (asked.by.clone(), asked.filter.clone());
    let question = Question { by: asked.by, filter: asked.filter, after, limit: bounded(asked.limit, ROWS)? };
    let asking = door.usage.ask(&door.consensus, asked.partial, move |view| view.totals(&question));
    let totals = asking.await?;
    let last = totals.groups.last().filter(|_group| totals.more);
    let next = last.and_then(|group| serde_json::to_string(&group.values).ok());
    let whole = |ms: u64| WallMs::from_millis(ms.saturating_mul(HOUR_MS));
    let report = api::UsageReport {
        since: filter.since.map(|since| whole(since.as_millis() / HOUR_MS)),
        until: filter.until.map(|until| whole(until.as_millis().div_ceil(HOUR_MS))),
        missing_entries: lacks(&door.usage.standing()),
        kept_from: totals.kept_from,
        rows: totals.groups.into_iter().map(|group| row(&by, group)).collect(),
        next,
        by,
    };
    Ok(Json(report).into_response())
}

async fn since_the_beginning(door: &Door) -> Result<Vec<api::UsageRow>, Refused> {
    door.consensus.read_index().await?;
    Ok(door.consensus.read(|state| {
        let totals = state.usage().totals();
        totals
            .map(|(who, total)| api::UsageRow {
                tenant: who.tenant.clone(),
                app: who.app.clone(),
                key: who.key.clone(),
                model: who.model.clone(),
                calls: total.calls,
                input: total.input,
                output: total.output,
                cost: total.cost,
            })
            .collect()
    }))
}

pub(super) async fn receipts(State(door): Shared, Parameters(given): Parameters) -> Answer<api::Receipts> {
    let asked = Asked::read(&given, door.host.wall())?;
    if !asked.by.is_empty() {
        return Err(Refused::bad_request("by is for GET /v1/usage"));
    }
    let after = asked.cursor.as_deref().map(mark).transpose()?;
    let listing = Listing { filter: asked.filter, after, limit: bounded(asked.limit, RECEIPTS)? };
    let request = asked.request;
    let asking = door.usage.ask(&door.consensus, asked.partial, move |view| match request {
        Some(request) => Ok((view.receipts_of(request, listing.limit)?, None)),
        None => view.list(&listing).map(|listed| (listed.receipts, listed.next)),
    });
    let (receipts, next) = asking.await?;
    Ok(Json(api::Receipts {
        missing_entries: lacks(&door.usage.standing()),
        receipts: receipts.into_iter().map(|(edge, receipt)| receipt_row(edge, receipt)).collect(),
        next: next.map(|mark| format!("{}.{}", mark.at.as_millis(), mark.place)),
    }))
}

impl Asked {
    fn read(given: &[(String, String)], now: WallMs) -> Result<Self, Refused> {
        let mut asked = Self::default();
        for (name, value) in given {
            asked
                .take(name, value, now)
                .map_err(|why| Refused::bad_request(format!("{name}={value}: {why}")))?;
        }
        Ok(asked)
    }

    fn take(&mut self, name: &str, value: &str, now: WallMs) -> Result<(), String> {
        match name {
            "by" => {
                for one in value.split(',') {
                    self.by.push(one.parse()?);
                }
            }
            "since" => self.filter.since = Some(instant(value, now)?),
            "until" => self.filter.until = Some(instant(value, now)?),
            "request" => {
                self.request = Some(value.parse().map_err(|error: base::IdError| error.to_string())?);
            }
            "limit" => self.limit = Some(value.parse().map_err(|_bad| "must be a whole number")?),
            "cursor" => self.cursor = Some(value.to_owned()),
            "user" => self.filter.user = Some(user(value)?),
            "partial" => self.partial = value.parse().map_err(|_bad| "must be true or false")?,
            dimension => match dimension.parse() {
                Ok(Dimension::Hour | Dimension::Day) => {
                    return Err("ask for times with since and until".to_owned());
                }
                Ok(dimension) => self.filter.equal.push((dimension, value.to_owned())),
                Err(why) => return Err(format!("no such parameter; {why}")),
            },
        }
        Ok(())
    }
}

/// The end user of this name, as edges know them.
pub(super) fn user(name: &str) -> Result<UserHash, String> {
    let name = name.as_bytes().trim_ascii();
    if name.is_empty() || name.len() > UserHash::LONGEST_NAME {
        return Err(format!("must have 1 to {} bytes", UserHash::LONGEST_NAME));
    }
    Ok(UserHash::of_digest(digest::digest(&digest::SHA256, name).as_ref()))
}

/// An instant in RFC 3339, or how long ago: `30m`, `24h`, `7d`.
fn instant(text: &str, now: WallMs) -> Result<WallMs, String> {
    const EXPECTED: &str = "must be an instant such as 2026-01-31T12:00:00Z, or how long ago: 30m, 24h, 7d";
    let unit = text.chars().last().unwrap_or_default();
    let ms = match unit {
        'm' => 60_000,
        'h' => HOUR_MS,
        'd' => DAY_MS,
        _other => {
            let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_bad| EXPECTED)?;
            let ms = parsed.unix_timestamp_nanos().div_euclid(1_000_000);
            return Ok(WallMs::from_millis(u64::try_from(ms).unwrap_or_default()));
        }
    };
    let count: u64 = text.trim_end_matches(unit).parse().map_err(|_bad| EXPECTED)?;
    Ok(WallMs::from_millis(now.as_millis().saturating_sub(count.saturating_mul(ms))))
}

fn bounded(asked: Option<usize>, (default, most): (usize, usize)) -> Result<usize, Refused> {
    match asked {
        None => Ok(default),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(Refused::bad_request(format!("limit={limit}: must lie between 1 and {most}"))),
    }
}

fn mark(text: &str) -> Result<Mark, Refused> {
    let parts = text.split_once('.').and_then(|(at, place)| Some((at.parse().ok()?, place.parse().ok()?)));
    let (at, place) = parts.ok_or_else(|| Refused::bad_request("cursor is not one that an answer gave"))?;
    Ok(Mark { at: WallMs::from_millis(at), place })
}

fn row(by: &[Dimension], group: Group) -> api::UsageGroup {
    let value = |(by, value): (&Dimension, String)| {
        let value = match by {
            Dimension::Hour => start(&value, HOUR_MS),
            Dimension::Day => start(&value, DAY_MS),
            _other => value,
        };
        (*by, some(&value))
    };
    api::UsageGroup { values: by.iter().zip(group.values).map(value).collect(), total: group.total }
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// The start of the hour or day with this number since 1970.
fn start(number: &str, ms: u64) -> String {
    let seconds = number.parse::<i64>().unwrap_or_default().saturating_mul((ms / 1_000).cast_signed());
    let start = OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(|at| at.format(&Rfc3339).ok());
    start.unwrap_or_else(|| number.to_owned())
}

fn receipt_row(edge: Name, receipt: Receipt) -> api::ReceiptRow {
    let dimensions = Dimensions::of(&receipt);
    let timeless = Dimension::ALL.iter().filter(|one| !matches!(one, Dimension::Hour | Dimension::Day));
    api::ReceiptRow {
        request: receipt.request.to_string(),
        at: receipt.at,
        edge,
        user: receipt.user.map(|user| user.to_string()),
        values: timeless.map(|one| (*one, some(dimensions.text(*one)))).collect(),
        attempts: receipt.attempts,
        estimated: receipt.estimated,
        input: receipt.usage.input,
        cached_input: receipt.usage.cached_input,
        cache_write: receipt.usage.cache_write,
        audio_input: receipt.usage.audio_input,
        output: receipt.usage.output,
        reasoning: receipt.usage.reasoning,
        audio_output: receipt.usage.audio_output,
        images: receipt.usage.images,
        busy_ms: receipt.usage.busy_ms,
        price_from: receipt.price_from,
        cost: receipt.cost,
        charges: receipt
            .charges
            .iter()
            .map(|charge| api::ChargeRow {
                budget: charge.budget.budget(),
                window: charge.window,
                amount: charge.amount,
                overrun: charge.overrun,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_given_as_such_or_as_how_long_ago() {
        let now = WallMs::from_millis(1_700_000_000_000);
        let read = |text| instant(text, now).map(WallMs::as_millis);
        assert_eq!(read("24h"), Ok(1_700_000_000_000 - DAY_MS));
        assert_eq!(read("7d"), Ok(1_700_000_000_000 - 7 * DAY_MS));
        assert_eq!(read("90m"), Ok(1_700_000_000_000 - 5_400_000));
        assert_eq!(read("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert_eq!(read("2023-11-15T00:13:20.5+02:00"), Ok(1_700_000_000_500));
        for bad in ["", "h", "yesterday", "-1h", "2023-11-14", "1w"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(start("0000472222", HOUR_MS), "2023-11-14T22:00:00Z");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let read = |name: &str, value: &str| {
            Asked::read(&[(name.to_owned(), value.to_owned())], WallMs::default()).map_err(|no| no.message())
        };
        assert!(read("by", "tenant,colour").unwrap_err().contains("no dimension \"colour\""));
        assert!(read("colour", "red").unwrap_err().contains("no such parameter"));
        assert!(read("hour", "1").unwrap_err().contains("since and until"));
        assert!(read("user", " ").unwrap_err().contains("1 to 256 bytes"));
        assert_eq!(read("user", "ann").unwrap().filter.user, read("user", " ann ").unwrap().filter.user);
        assert!(read("request", "req_1").unwrap_err().contains("32 hexadecimal digits"));
        assert_eq!(read("by", "tenant,day").unwrap().by, [Dimension::Tenant, Dimension::Day]);
    }
}
