//! `portolan status`: nodes and links, epochs, models, budgets.

use base::{Name, Unit, WindowId};
use central::admin::api::{BudgetRow, EdgeRow, KeyRow, LinkRow, MemberRow, ModelRow, Status};
use time::OffsetDateTime;

use crate::admin::Admin;
use crate::failure::Outcome;
use crate::out::{self, Table};

pub(super) async fn show(admin: &Admin, as_json: bool) -> Outcome {
    let status: Status = admin.get("/v1/status").await?;
    if as_json {
        return super::json(&status);
    }
    let leader = status.leader.as_ref().map_or("none", Name::as_str);
    out::line(format_args!(
        "mesh {}: epoch {}, leader {leader}, term {}, level {} (as {} sees it)",
        status.mesh, status.epoch, status.term, status.level, status.node
    ));
    section("central", &members_table(&status.members, status.leader.as_ref()));
    section("edges", &edges_table(&status.edges));
    section("tokenizers that edges lack: bytes bound their models' calls", &tokenizers_table(&status.edges));
    section("links", &links_table(&status));
    section("models", &models_table(&status.models));
    section("budgets", &budgets_table(&status.budgets));
    section("provider keys", &keys_table(&status.keys));
    section("provider keys, for single models", &key_models_table(&status.keys));
    Ok(())
}

fn section(name: &str, table: &Table) {
    if !table.is_empty() {
        out::raw(&format!("\n{name}\n{}", table.text(2)));
    }
}

pub(super) fn members_table(members: &[MemberRow], leader: Option<&Name>) -> Table {
    let heading = ["id", "node", "region", "address", "role", "reachable", "epoch", "applied", "edges"];
    let mut table = Table::new(&heading);
    for member in members {
        let role = match (Some(&member.name) == leader, member.voter) {
            (true, _voter) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        table.row(vec![
            member.id.to_string(),
            member.name.to_string(),
            member.region.to_string(),
            member.mesh.to_string(),
            role.to_owned(),
            yes(member.reachable),
            or_dash(member.epoch),
            or_dash(member.applied),
            or_dash(member.sessions),
        ]);
    }
    table
}

fn edges_table(edges: &[EdgeRow]) -> Table {
    let heading = ["node", "region", "address", "state", "attached to", "epoch", "calls", "build"];
    let mut table = Table::new(&heading);
    for edge in edges {
        let state = match (edge.left, &edge.attached_to, edge.draining) {
            (true, _attached, _draining) => "left",
            (false, None, _draining) => "away",
            (false, Some(_central), true) => "draining",
            (false, Some(_central), false) => "serving",
        };
        table.row(vec![
            edge.name.to_string(),
            edge.region.to_string(),
            edge.mesh.to_string(),
            state.to_owned(),
            or_dash(edge.attached_to.as_ref()),
            or_dash(edge.epoch),
            or_dash(edge.in_flight),
            edge.build.clone(),
        ]);
    }
    table
}

fn tokenizers_table(edges: &[EdgeRow]) -> Table {
    let mut table = Table::new(&["tokenizer", "at", "what is wrong", "what to do"]);
    let missing = edges.iter().flat_map(|edge| edge.missing_tokenizers.iter().map(move |of| (edge, of)));
    for (edge, of) in missing {
        table.row(vec![of.name.clone(), edge.name.to_string(), of.why.clone(), of.mend.clone()]);
    }
    table
}

/// Round trips, one row per node that measured, one column per node measured.
fn links_table(status: &Status) -> Table {
    let members = status.members.iter().map(|member| (&member.name, &member.links));
    let edges = status.edges.iter().map(|edge| (&edge.name, &edge.links));
    let all: Vec<(&Name, &Vec<LinkRow>)> = members.chain(edges).collect();
    let mut to: Vec<&Name> =
        all.iter().flat_map(|(_from, links)| links.iter().map(|link| &link.to)).collect();
    to.sort_unstable();
    to.dedup();
    let heading: Vec<&str> = ["from"].into_iter().chain(to.iter().map(|name| name.as_str())).collect();
    let mut table = Table::new(&heading);
    for (from, links) in all.into_iter().filter(|(_from, links)| !links.is_empty()) {
        let rtt = |name: &Name| {
            let link = links.iter().find(|link| link.to == *name);
            link.map_or_else(String::new, |link| format!("{:.1} ms", f64::from(link.rtt_us) / 1_000.0))
        };
        let row = [from.to_string()].into_iter().chain(to.iter().map(|name| rtt(name)));
        table.row(row.collect());
    }
    table
}

fn models_table(models: &[ModelRow]) -> Table {
    let mut table = Table::new(&["model", "replicas", "provider", "context", "priced"]);
    for model in models {
        let replicas = model.replicas.iter().map(|(region, count)| format!("{region} {count}"));
        table.row(vec![
            model.name.to_string(),
            replicas.collect::<Vec<_>>().join(", "),
            or_dash(model.provider.as_ref()),
            or_dash(model.context.map(|tokens| tokens.0)),
            yes(model.priced),
        ]);
    }
    table
}

/// Each central node knows of a key what its own calls met.
fn keys_table(keys: &[KeyRow]) -> Table {
    let mut table = Table::new(&["provider", "key", "at", "weight", "calls", "state"]);
    let mut rows: Vec<_> = keys.iter().collect();
    rows.sort_by_key(|row| (&row.provider, &row.key, &row.node));
    for row in rows {
        table.row(vec![
            row.provider.to_string(),
            row.key.to_string(),
            row.node.to_string(),
            row.weight.to_string(),
            row.outstanding.to_string(),
            key_state(row.suspended_ms, row.paced_ms, "paced"),
        ]);
    }
    table
}

/// Where something is known of a key for one model: that it may not have it, or what is left of its limits.
fn key_models_table(keys: &[KeyRow]) -> Table {
    let heading = ["provider", "key", "at", "model", "requests left", "tokens left", "state"];
    let mut table = Table::new(&heading);
    let mut rows: Vec<_> = keys.iter().flat_map(|key| key.models.iter().map(move |of| (key, of))).collect();
    rows.sort_by_key(|(key, of)| (&key.provider, &key.key, &of.model, &key.node));
    for (key, of) in rows {
        table.row(vec![
            key.provider.to_string(),
            key.key.to_string(),
            key.node.to_string(),
            of.model.to_string(),
            or_dash(of.requests_left),
            or_dash(of.tokens_left),
            key_state(of.suspended_ms, of.spent_ms, "spent"),
        ]);
    }
    table
}

fn key_state(suspended_ms: Option<u64>, waits_ms: Option<u64>, why: &str) -> String {
    let seconds = |ms: u64| format!("{} s", ms.div_ceil(1_000));
    match (suspended_ms, waits_ms) {
        (Some(0), _waits) => "suspended, probed by the next call".to_owned(),
        (Some(ms), _waits) => format!("suspended for {}", seconds(ms)),
        (None, Some(ms)) => format!("{why} for {}", seconds(ms)),
        (None, None) => "serving".to_owned(),
    }
}

fn budgets_table(budgets: &[BudgetRow]) -> Table {
    let heading = ["budget", "of", "per", "limit", "spent", "at edges", "left"];
    let mut table = Table::new(&heading);
    for budget in budgets {
        let of = |value: base::Amount| amount(budget.unit, value.0.into());
        table.row(vec![
            budget.name.to_string(),
            budget.scope.clone(),
            format!("{:?}", budget.window).to_lowercase(),
            of(budget.limit),
            of(budget.spent),
            of(budget.held),
            of(budget.left),
        ]);
    }
    table
}

/// An amount in its unit, exact.
pub(super) fn amount(unit: Unit, value: u128) -> String {
    match unit {
        Unit::NanoUsd => {
            let nano = format!("{:09}", value % 1_000_000_000);
            let fraction = nano.trim_end_matches('0');
            format!("${}.{fraction:0<2}", value / 1_000_000_000)
        }
        Unit::Tokens => format!("{value} tokens"),
        Unit::InputTokens => format!("{value} input tokens"),
        Unit::OutputTokens => format!("{value} output tokens"),
        Unit::Requests => format!("{value} calls"),
    }
}

/// A window by its start.
pub(super) fn window(window: WindowId) -> String {
    if window.0 == 0 { "total".to_owned() } else { format!("from {}", utc(window.0)) }
}

/// Milliseconds since 1970 as a date and time, in UTC.
pub(crate) fn utc(ms: u64) -> String {
    let at = i64::try_from(ms / 1_000).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    at.map_or_else(
        || format!("{ms} ms"),
        |at| {
            let (month, day) = (u8::from(at.month()), at.day());
            let (hour, minute, second) = at.to_hms();
            format!("{}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z", at.year())
        },
    )
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(amount(Unit::NanoUsd, 1_000_000_000), "$1.00");
        assert_eq!(amount(Unit::NanoUsd, 12_500_000_001), "$12.500000001");
        assert_eq!(amount(Unit::NanoUsd, 0), "$0.00");
        assert_eq!(amount(Unit::Tokens, 7), "7 tokens");
    }

    #[test]
    fn instants_are_dates_in_utc() {
        assert_eq!(utc(1_796_012_710_788), "2026-11-30 04:25:10Z");
        assert_eq!(window(WindowId(0)), "total");
    }
}
