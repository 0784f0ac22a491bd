//! The configuration: plan, apply, get, epochs, rollback, keys.

use std::io::Read as _;
use std::path::Path;

use base::{Epoch, Name};
use central::admin::api::{Catalog, Changed, EpochRow, Files, Level, Planned, Rollback};
use central_core::files::Source;
use serde_json::{Value, json};

use super::status::utc;
use crate::admin::Admin;
use crate::args;
use crate::failure::{Exit, Failure, Outcome};
use crate::{files, out};

pub(super) async fn plan(admin: &Admin, given: &args::Files) -> Outcome {
    let planned: Planned = admin.post("/v1/plan", &request(given, "", None)?).await?;
    let text = planned.text.trim_end();
    if planned.faults.is_empty() {
        out::line(text);
        return Ok(());
    }
    let faults: Vec<_> = planned.faults.iter().map(|fault| format!("\n  {fault}")).collect();
    let failure = Failure::new(Exit::Invalid, format!("this cannot be applied:{}", faults.concat()));
    if text.is_empty() {
        return Err(failure);
    }
    // What is wrong comes first; what would change without it may be long.
    out::remark(&failure);
    out::line(text);
    Err(failure.told())
}

pub(super) async fn apply(admin: &Admin, given: &args::Files, note: &str, base: Option<u64>) -> Outcome {
    let changed: Changed = admin.post("/v1/apply", &request(given, note, base)?).await?;
    say(&changed);
    Ok(())
}

/// Applies a text that is not an operator's file; a configuration that says so already is left alone.
pub(crate) async fn apply_text(admin: &Admin, name: &str, text: &str) -> Outcome {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    let request = Files { files: vec![source], prune: false, note: "demo".to_owned(), base: None };
    admin.post("/v1/apply", &request).await.map(|_changed: Changed| ())
}

pub(super) async fn get(admin: &Admin, kind: Option<&str>, name: Option<&str>, as_json: bool) -> Outcome {
    let mut catalog = admin.get::<Catalog>("/v1/catalog").await?.catalog;
    if let Some(kind) = kind {
        catalog = select(&catalog, kind, name)?;
    }
    if as_json {
        return super::json(&catalog);
    }
    let text = serde_saphyr::to_string(&catalog).map_err(Failure::failed)?;
    out::raw(&text);
    Ok(())
}

/// One kind of object, or one object, in the form of a file.
fn select(catalog: &Value, kind: &str, name: Option<&str>) -> Result<Value, Failure> {
    let kind = if kind.ends_with('s') { kind.to_owned() } else { format!("{kind}s") };
    let kinds = ["tenants", "apps", "keys", "providers", "models", "groups", "routes", "budgets"];
    if !kinds.contains(&kind.as_str()) {
        let what = format!("there is no kind of object called {kind:?}; known are {}", kinds.join(", "));
        return Err(Failure::new(Exit::Invalid, what));
    }
    let all = catalog.get(&kind).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(name) = name else { return Ok(json!({ kind: all })) };
    let found: Vec<_> =
        all.into_iter().filter(|object| object.get("name").and_then(Value::as_str) == Some(name)).collect();
    if found.is_empty() {
        return Err(Failure::new(Exit::Refused, format!("none of the {kind} is called {name}")));
    }
    Ok(json!({ kind: found }))
}

pub(super) async fn epochs(admin: &Admin, as_json: bool) -> Outcome {
    let rows: Vec<EpochRow> = admin.get("/v1/epochs").await?;
    if as_json {
        return super::json(&rows);
    }
    let mut table = out::Table::new(&["epoch", "at", "changes", "by", "note"]);
    for row in rows {
        let at = utc(row.at.as_millis());
        table.row(vec![row.epoch.to_string(), at, row.changes.to_string(), row.by, row.note]);
    }
    out::raw(&table.text(0));
    Ok(())
}

pub(super) async fn rollback(admin: &Admin, epoch: u64) -> Outcome {
    let changed: Changed = admin.post("/v1/rollback", &Rollback { to: Epoch(epoch) }).await?;
    say(&changed);
    Ok(())
}

/// Revokes a key. Central makes the change anew when another comes in between.
pub(super) async fn revoke(admin: &Admin, name: &Name) -> Outcome {
    let changed: Changed = admin.post(&format!("/v1/keys/{name}/revoke"), &()).await?;
    say(&changed);
    Ok(())
}

/// Raises the level of messages and log entries.
pub(super) async fn raise_level(admin: &Admin, to: u16) -> Outcome {
    let changed: Changed = admin.post("/v1/level", &Level { to }).await?;
    out::line(changed.text);
    Ok(())
}

fn request(given: &args::Files, note: &str, base: Option<u64>) -> Result<Files, Failure> {
    let read: Vec<_> = given.files.iter().map(|path| source(path)).collect();
    let missing: Vec<_> = read.iter().filter_map(|read| Some(read.as_ref().err()?.what())).collect();
    if missing.len() > 1 {
        return Err(Failure::failed(missing.join("\n  ")));
    }
    let files = read.into_iter().collect::<Result<_, _>>()?;
    Ok(Files { files, prune: given.prune, note: note.to_owned(), base: base.map(Epoch) })
}

fn source(path: &Path) -> Result<Source, Failure> {
    if path != Path::new("-") {
        return Ok(Source { name: path.display().to_string(), text: files::read(path)? });
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
    Ok(Source { name: "standard input".to_owned(), text })
}

fn say(changed: &Changed) {
    let text = changed.text.trim_end();
    if !text.is_empty() {
        out::line(text);
    }
    if changed.changed {
        out::line(format_args!("epoch {} is in force", changed.epoch));
    } else if text.is_empty() {
        out::line(format_args!("nothing to change; epoch {} stays in force", changed.epoch));
    }
}
