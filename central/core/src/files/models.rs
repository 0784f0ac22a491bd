//! Providers, models, groups and routes.

use base::{Name, Tokens};
use settings::{Fields, Kind, Value, text, whole, word};
use tokens::Reference;
use wire::catalog::{
    Audio, DEFAULT_KEY, Dialect, Group, Model, Object, Operation, Provider, ProviderKey, Replica, Route,
    Strategy, Target, Timeouts,
};

use super::principals::limits;
use super::{Credential, Extra, accounts, prices};
use crate::KeyOf;

pub(super) fn provider(fields: &mut Fields<'_, '_>, extra: &mut Extra<'_>) -> Option<Object> {
    let name: Option<Name> = fields.required("name", word);
    let dialect = fields.or("dialect", dialect, Dialect::Openai);
    let base_url = fields.required("base_url", text);
    let credential = fields.optional("credential", credential);
    let keys = fields.mappings("keys", provider_key);
    let limits = accounts::read(fields, name.as_ref());
    if matches!(credential, Some(Some(_))) && keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
        fields.at_fault(
            "credential",
            "give `credential` or `keys`, not both; a key has a credential of its own",
        );
        return None;
    }
    let (provider, credential) = (name?, credential?);
    extra.budgets.extend(limits?);
    let unnamed = credential.map(|secret| (DEFAULT_KEY.parse().ok(), secret));
    let (keys, secrets): (Vec<_>, Vec<_>) = keys?.into_iter().unzip();
    let named = keys.iter().map(|key: &ProviderKey| Some(key.name.clone())).zip(secrets);
    let named = named.filter_map(|(key, secret)| Some((key, secret?)));
    extra.credentials.extend(named.chain(unnamed).filter_map(|(key, secret)| {
        Some(Credential { of: KeyOf { provider: provider.clone(), key: key? }, secret })
    }));
    Some(Object::Provider(Provider { name: provider, dialect: dialect?, base_url: base_url?, keys }))
}

/// A key, and its credential unless the one that is sealed stays.
fn provider_key(fields: &mut Fields<'_, '_>) -> Option<(ProviderKey, Option<String>)> {
    let name = fields.required("name", word);
    let credential = fields.optional("credential", credential);
    let weight = fields.or("weight", whole, 1);
    let concurrency = fields.optional("concurrency", whole);
    let requests_per_min = fields.optional("requests_per_min", whole);
    let tokens_per_min = fields.optional("tokens_per_min", whole);
    let key = ProviderKey {
        name: name?,
        weight: weight?,
        concurrency: concurrency?,
        requests_per_min: requests_per_min?,
        tokens_per_min: tokens_per_min?,
    };
    Some((key, credential?))
}

pub(super) fn model(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", word);
    let upstream_model = fields.optional("upstream_model", non_empty);
    let dialect = fields.or("dialect", dialect, Dialect::Openai);
    let operations = fields.list("operations", operation);
    let chats = operations
        .as_ref()
        .is_none_or(|given| given.as_ref().is_none_or(|operations| operations.contains(&Operation::Chat)));
    let price = prices::read(fields, chats);
    let context = fields.optional("context", whole);
    let output_cap = fields.optional("output_cap", whole);
    let tokenizer = fields.optional("tokenizer", tokenizer);
    let image_tokens = fields.optional("image_tokens", whole);
    let audio = fields.mapping("audio", audio);
    let file_tokens = fields.optional("file_tokens", whole);
    let replicas = fields.mappings("replicas", replica);
    let provider = fields.optional("provider", word);
    let timeouts = fields.mapping("timeouts", timeouts);
    let limits = limits(fields);
    Some(Object::Model(Model {
        name: name?,
        upstream_model: upstream_model?,
        dialect: dialect?,
        operations: operations?.unwrap_or_else(|| vec![Operation::Chat]),
        price: price?,
        context: context?.map(Tokens),
        output_cap: output_cap?.map(Tokens),
        tokenizer: tokenizer?,
        image_tokens: image_tokens?.map(Tokens),
        audio: audio?,
        file_tokens: file_tokens?.map(Tokens),
        replicas: replicas?,
        provider: provider?,
        timeouts: timeouts?.unwrap_or_default(),
        limits: limits?,
    }))
}

fn audio(fields: &mut Fields<'_, '_>) -> Option<Audio> {
    let tokens_per_s = fields.optional("tokens_per_s", positive)?;
    let least_kbps = fields.optional("least_kbps", positive)?;
    let most_tokens = fields.optional("most_tokens", whole)?;
    match (tokens_per_s, least_kbps, most_tokens) {
        (None, _, None) => fields
            .missing("tokens_per_s", "is required where there is no `most_tokens`; add one of them, or both"),
        (None, Some(_), _) => {
            fields
                .missing("tokens_per_s", "is required with `least_kbps`, which tells how long sound may be");
        }
        (_, _, _) => return Some(Audio { tokens_per_s, least_kbps, most_tokens: most_tokens.map(Tokens) }),
    }
    None
}

/// A number of which nothing would be left if it were zero.
fn positive(value: &Value) -> Result<u32, String> {
    match whole(value)? {
        0 => Err("must be at least 1".to_owned()),
        given => Ok(given),
    }
}

fn replica(fields: &mut Fields<'_, '_>) -> Option<Replica> {
    let name = fields.required("name", word);
    let region = fields.required("region", word);
    let url = fields.required("url", text);
    let concurrency = fields.optional("concurrency", whole);
    let requests_per_s = fields.optional("requests_per_s", whole);
    let requests_per_min = fields.optional("requests_per_min", whole);
    let tokens_per_min = fields.optional("tokens_per_min", whole);
    Some(Replica {
        name: name?,
        region: region?,
        url: url?,
        concurrency: concurrency?,
        requests_per_s: requests_per_s?,
        requests_per_min: requests_per_min?,
        tokens_per_min: tokens_per_min?,
    })
}

fn timeouts(fields: &mut Fields<'_, '_>) -> Option<Timeouts> {
    let usual = Timeouts::default();
    let connect_ms = fields.or("connect_ms", whole, usual.connect_ms);
    let first_byte_ms = fields.or("first_byte_ms", whole, usual.first_byte_ms);
    let idle_ms = fields.or("idle_ms", whole, usual.idle_ms);
    let total_ms = fields.or("total_ms", whole, usual.total_ms);
    Some(Timeouts {
        connect_ms: connect_ms?,
        first_byte_ms: first_byte_ms?,
        idle_ms: idle_ms?,
        total_ms: total_ms?,
    })
}

pub(super) fn group(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", word);
    let models = fields.list("models", word);
    Some(Object::Group(Group { name: name?, models: models?.unwrap_or_default() }))
}

pub(super) fn route(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", word);
    let aliases = fields.list("aliases", word);
    let strategy = fields.or("strategy", strategy, Strategy::Ordered);
    let targets = targets(fields);
    Some(Object::Route(Route {
        name: name?,
        aliases: aliases?.unwrap_or_default(),
        strategy: strategy?,
        targets: targets?,
    }))
}

/// Targets are names, or mappings of `model` and `weight`.
fn targets(fields: &mut Fields<'_, '_>) -> Option<Vec<Target>> {
    let items = fields.items("targets");
    let mut targets = Vec::with_capacity(items.len());
    for item in &items {
        let target = if matches!(item.value.kind, Kind::Map(_)) {
            fields.mapping_of(item, &|target: &mut Fields<'_, '_>| {
                let model = target.required("model", word);
                let weight = target.or("weight", whole, 1);
                Some(Target { model: model?, weight: weight? })
            })
        } else {
            match word(item.value) {
                Ok(model) => Some(Target { model, weight: 1 }),
                Err(what) => {
                    fields.fault(item.fault(what));
                    None
                }
            }
        };
        targets.push(target);
    }
    targets.into_iter().collect()
}

fn non_empty(value: &Value) -> Result<String, String> {
    match text(value)? {
        empty if empty.is_empty() => Err("must not be empty; leave it out".to_owned()),
        given => Ok(given),
    }
}

/// A tokenizer of the build, or a file of edges.
fn tokenizer(value: &Value) -> Result<String, String> {
    let name = text(value)?;
    name.parse::<Reference>().map_err(|bad| bad.to_string())?;
    Ok(name)
}

/// A secret that goes into a header.
fn credential(value: &Value) -> Result<String, String> {
    let secret = text(value)?;
    if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be visible ASCII characters without spaces, as a header can carry".to_owned());
    }
    Ok(secret)
}

fn dialect(value: &Value) -> Result<Dialect, String> {
    let given = text(value)?;
    let known = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == given);
    known.ok_or_else(|| format!("{given:?} is not a dialect; known are openai, anthropic and gemini"))
}

fn operation(value: &Value) -> Result<Operation, String> {
    match text(value)?.as_str() {
        "chat" => Ok(Operation::Chat),
        "embeddings" => Ok(Operation::Embeddings),
        other => Err(format!("{other:?} is not an operation; known are chat and embeddings")),
    }
}

fn strategy(value: &Value) -> Result<Strategy, String> {
    match text(value)?.as_str() {
        "ordered" => Ok(Strategy::Ordered),
        "weighted" => Ok(Strategy::Weighted),
        other => Err(format!("{other:?} is not a strategy; known are ordered and weighted")),
    }
}
