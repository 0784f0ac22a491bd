//! Tenants, apps and keys.

use base::{KeyHash, Name, Priority, TenantName};
use settings::{Fields, Value, flag, text, whole, word};
use wire::catalog::{App, Key, Limits, Object, Tenant};

use super::Extra;

/// Longest staleness when a tenant names none: a day.
const STALE_S: u32 = 86_400;

/// Shortest secret of a key, in characters: the hash is fast, so that the secret alone must resist guessing.
const SHORTEST_SECRET: usize = 20;

pub(super) fn tenant(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", word);
    let limits = limits(fields);
    let max_stale_s = fields.or("max_stale_s", whole, STALE_S);
    let weight = fields.or("weight", whole, 1);
    let priority = fields.or("priority", priority, Priority::Interactive);
    Some(Object::Tenant(Tenant {
        name: name?,
        limits: limits?,
        max_stale_s: max_stale_s?,
        weight: weight?,
        priority: priority?,
    }))
}

pub(super) fn app(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let tenant = fields.required("tenant", word);
    let name = fields.required("name", word);
    let limits = limits(fields);
    Some(Object::App(App { tenant: tenant?, name: name?, limits: limits? }))
}

pub(super) fn key(fields: &mut Fields<'_, '_>, extra: &mut Extra<'_>) -> Option<Object> {
    let name: Option<Name> = fields.required("name", word);
    let tenant: Option<TenantName> = fields.required("tenant", word);
    let app = fields.required("app", word);
    let known = name.as_ref().and_then(|name| extra.current.keys.get(name));
    let hash = secret(fields, extra, known.map(|key| key.hash));
    let limits = limits(fields);
    let models = fields.list("models", word);
    let debug = fields.or("debug", flag, false);
    let revoked = revoked(fields, extra, known, hash);
    let priority = fields.or("priority", priority, Priority::Interactive);
    Some(Object::Key(Key {
        name: name?,
        tenant: tenant?,
        app: app?,
        hash: hash?,
        limits: limits?,
        models: models?,
        debug: debug?,
        revoked: revoked?,
        priority: priority?,
    }))
}

/// Whether the key is revoked. A secret that was revoked once stays so: a file that leaves the word out keeps its key
/// revoked, and one that would open the secret again is at fault.
fn revoked(
    fields: &mut Fields<'_, '_>,
    extra: &Extra<'_>,
    known: Option<&Key>,
    hash: Option<KeyHash>,
) -> Option<bool> {
    let given = fields.optional("revoked", flag)?;
    let Some(hash) = hash.filter(|hash| extra.revoked.contains(hash)) else {
        return Some(given.unwrap_or(false));
    };
    let kept = known.is_some_and(|key| key.hash == hash).then_some(true);
    if given.or(kept) == Some(true) {
        return Some(true);
    }
    const WHY: &str = "this secret was revoked, and revocation is for good; give the key another secret";
    match given {
        Some(_reopened) => fields.at_fault("revoked", WHY),
        None => fields.missing("revoked", WHY),
    }
    None
}

/// The key's hash: of the secret given, as given, or as it is now.
fn secret(fields: &mut Fields<'_, '_>, extra: &Extra<'_>, known: Option<KeyHash>) -> Option<KeyHash> {
    let secret = fields.optional("secret", secret_text);
    let hash = fields.optional("hash", hash_text);
    match (secret?, hash?) {
        (Some(secret), None) => Some((extra.hash)(secret.as_bytes())),
        (None, Some(hash)) => Some(hash),
        (Some(_secret), Some(_hash)) => {
            fields.missing("hash", "give `secret` or `hash`, not both");
            None
        }
        (None, None) => {
            if known.is_none() {
                fields.missing(
                    "secret",
                    "a new key needs `secret`, or `hash: sha256:` and 64 hexadecimal digits",
                );
            }
            known
        }
    }
}

fn secret_text(value: &Value) -> Result<String, String> {
    let secret = text(value)?;
    if secret.chars().count() < SHORTEST_SECRET || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "must have at least {SHORTEST_SECRET} visible ASCII characters, drawn at random"
        ));
    }
    Ok(secret)
}

fn hash_text(value: &Value) -> Result<KeyHash, String> {
    const EXPECTED: &str = "must be `sha256:` and 64 hexadecimal digits";
    let text = text(value)?;
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii());
    let digits = digits.ok_or(EXPECTED)?;
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        let pair = digits.get(2 * at..2 * at + 2).ok_or(EXPECTED)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_not_hexadecimal| EXPECTED)?;
    }
    Ok(KeyHash(hash))
}

fn priority(value: &Value) -> Result<Priority, String> {
    match text(value)?.as_str() {
        "interactive" => Ok(Priority::Interactive),
        "batch" => Ok(Priority::Batch),
        other => Err(format!("{other:?} is not a priority; known are interactive and batch")),
    }
}

pub(super) fn limits(fields: &mut Fields<'_, '_>) -> Option<Limits> {
    let limits = fields.mapping("limits", |limits| {
        let requests_per_s = limits.optional("requests_per_s", whole);
        let concurrency = limits.optional("concurrency", whole);
        let streams = limits.optional("streams", whole);
        let requests_per_min = limits.optional("requests_per_min", whole);
        let tokens_per_min = limits.optional("tokens_per_min", whole);
        let tokens_per_day = limits.optional("tokens_per_day", whole);
        Some(Limits {
            requests_per_s: requests_per_s?,
            concurrency: concurrency?,
            streams: streams?,
            requests_per_min: requests_per_min?,
            tokens_per_min: tokens_per_min?,
            tokens_per_day: tokens_per_day?,
        })
    });
    limits.map(Option::unwrap_or_default)
}
