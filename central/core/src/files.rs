//! Operators' files: YAML into configured objects, strictly, with every fault at once and its place.
//!
//! A fault reads `file:line:column: field: what is wrong and the mend`. Fields unknown to us are faults. Secrets of keys
//! become hashes here and are kept nowhere; credentials of providers are handed on to be sealed. Files are text that
//! somebody already read; nothing here opens one.

pub(crate) mod accounts;
mod budgets;
mod export;
mod models;
mod prices;
mod principals;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::KeyHash;
use serde::{Deserialize, Serialize};
use settings::{Fault, Fields, Node, Value};
use wire::catalog::{Budget, Catalog, Object, ObjectId};

use crate::KeyOf;
use crate::catalog::Problem;
pub use export::{export, object as export_object};

/// One file's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// How the operator calls it; stands in front of its faults.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A secret of a provider, as it was written in a file. Sealed by whoever applies the files.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Whose.
    pub of: KeyOf,
    /// The secret.
    pub secret: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.of)
    }
}

/// What files say, each object well formed in itself.
#[derive(Debug)]
pub struct Parsed {
    /// The objects, in the order of the files.
    pub objects: Vec<Object>,
    /// Secrets of providers.
    pub credentials: Vec<Credential>,
    origins: BTreeMap<ObjectId, Origin>,
}

/// Where an object was written.
#[derive(Clone, Debug)]
struct Origin {
    file: String,
    path: String,
    value: Value,
}

/// Reads files.
///
/// `current` is the configuration in force: a key whose secret the files leave out keeps the one it has. `revoked` are
/// the hashes of every secret that was ever revoked: no file opens one again. `hash` is SHA-256.
///
/// # Errors
/// Every [`Fault`] of every file.
pub fn read(
    sources: &[Source],
    current: &Catalog,
    revoked: &BTreeSet<KeyHash>,
    hash: &dyn Fn(&[u8]) -> KeyHash,
) -> Result<Parsed, Vec<Fault>> {
    let mut reading = Reading {
        current,
        revoked,
        hash,
        parsed: Parsed { objects: Vec::new(), credentials: Vec::new(), origins: BTreeMap::new() },
        faults: Vec::new(),
    };
    sources.iter().for_each(|source| reading.source(source));
    if reading.faults.is_empty() { Ok(reading.parsed) } else { Err(reading.faults) }
}

impl Parsed {
    /// Gives a problem of the whole configuration its place in the files.
    #[must_use]
    pub fn place(&self, problem: &Problem) -> Fault {
        let Some(origin) = self.origins.get(&problem.object) else {
            let field = format!("{}: {}", problem.object, problem.field);
            return Fault { file: String::new(), line: 0, column: 0, field, what: problem.what.clone() };
        };
        let at = origin.value.place_of(&problem.field);
        Fault {
            file: origin.file.clone(),
            line: at.line,
            column: at.column,
            field: format!("{}.{}", origin.path, problem.field),
            what: problem.what.clone(),
        }
    }
}

struct Reading<'a> {
    current: &'a Catalog,
    revoked: &'a BTreeSet<KeyHash>,
    hash: &'a dyn Fn(&[u8]) -> KeyHash,
    parsed: Parsed,
    faults: Vec<Fault>,
}

/// Reads one object; `None` when it is at fault.
type ReadObject = fn(&mut Fields<'_, '_>, &mut Extra<'_>) -> Option<Object>;

/// What reading an object needs beside its own fields.
struct Extra<'a> {
    current: &'a Catalog,
    revoked: &'a BTreeSet<KeyHash>,
    hash: &'a dyn Fn(&[u8]) -> KeyHash,
    credentials: &'a mut Vec<Credential>,
    /// Budgets that the object has beside it.
    budgets: Vec<Budget>,
}

const LISTS: [(&str, ReadObject); 8] = [
    ("tenants", principals::tenant),
    ("apps", principals::app),
    ("keys", principals::key),
    ("providers", models::provider),
    ("models", models::model),
    ("groups", models::group),
    ("routes", models::route),
    ("budgets", budgets::budget),
];

impl Reading<'_> {
    fn source(&mut self, source: &Source) {
        let value = match settings::yaml(&source.text) {
            Ok(value) => value,
            Err(broken) => {
                let (line, column) = (broken.at.line, broken.at.column);
                let (file, field) = (source.name.clone(), String::new());
                return self.faults.push(Fault { file, line, column, field, what: broken.what });
            }
        };
        if value.is_null() {
            return;
        }
        let mut faults = Vec::new();
        let root = Node { file: &source.name, path: String::new(), value: &value };
        if let Some(mut fields) = Fields::open(&root, &mut faults) {
            let lists: Vec<_> = LISTS.into_iter().map(|(name, read)| (fields.items(name), read)).collect();
            fields.finish();
            for (items, read) in lists {
                items.iter().for_each(|item| self.item(item, read, &mut faults));
            }
        }
        self.faults.append(&mut faults);
    }

    fn item(&mut self, item: &Node<'_>, read: ReadObject, faults: &mut Vec<Fault>) {
        let Some(mut fields) = Fields::open(item, faults) else { return };
        let mut extra = Extra {
            current: self.current,
            revoked: self.revoked,
            hash: self.hash,
            credentials: &mut self.parsed.credentials,
            budgets: Vec::new(),
        };
        let object = read(&mut fields, &mut extra);
        let budgets = extra.budgets;
        fields.finish();
        let Some(object) = object else { return };
        let origin =
            Origin { file: item.file.to_owned(), path: item.path.clone(), value: item.value.clone() };
        match self.parsed.origins.get(&object.id()) {
            Some(first) => {
                let at = first.value.at;
                let what = format!(
                    "{} is already given at {}:{}:{}; keep one",
                    object.id(),
                    first.file,
                    at.line,
                    at.column
                );
                faults.push(item.fault(what));
            }
            None => {
                for object in [object].into_iter().chain(budgets.into_iter().map(Object::Budget)) {
                    self.parsed.origins.insert(object.id(), origin.clone());
                    self.parsed.objects.push(object);
                }
            }
        }
    }
}
