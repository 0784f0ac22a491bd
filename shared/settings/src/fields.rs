//! Reads the fields of one mapping; what no one asked for is a fault.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use base::NanoUsd;

use crate::{Fault, Key, Kind, Place, Value, decimal};

/// A value and how an operator calls it.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The value's fields from the top, such as `models[2].name`; empty for the whole.
    pub path: String,
    /// The value.
    pub value: &'a Value,
}

impl<'a> Node<'a> {
    /// The items of a list.
    fn items(&self) -> Option<Vec<Self>> {
        let Kind::List(items) = &self.value.kind else { return None };
        let item = |(at, value): (usize, &'a Value)| Self {
            file: self.file,
            path: format!("{}[{at}]", self.path),
            value,
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// A fault of this value.
    pub fn fault(&self, what: impl Into<String>) -> Fault {
        self.fault_at(self.value.at, what)
    }

    fn fault_at(&self, at: Place, what: impl Into<String>) -> Fault {
        Fault {
            file: self.file.to_owned(),
            line: at.line,
            column: at.column,
            field: self.path.clone(),
            what: what.into(),
        }
    }
}

/// Reads a value, or says what is wrong with it.
pub type Read<T> = fn(&Value) -> Result<T, String>;

/// The fields of one mapping.
#[derive(Debug)]
pub struct Fields<'a, 'f> {
    node: Node<'a>,
    fields: Vec<(&'a Key, &'a Value, bool)>,
    asked: Vec<&'static str>,
    faults: &'f mut Vec<Fault>,
}

impl<'a, 'f> Fields<'a, 'f> {
    /// The fields of `node`; `None`, and a fault, when it is not a mapping.
    pub fn open(node: &Node<'a>, faults: &'f mut Vec<Fault>) -> Option<Self> {
        let Kind::Map(fields) = &node.value.kind else {
            faults
                .push(node.fault(format!("must be a mapping of fields, this is {}", node.value.describe())));
            return None;
        };
        let fields = fields.iter().map(|(key, value)| (key, value, false)).collect();
        Some(Self { node: node.clone(), fields, asked: Vec::new(), faults })
    }

    /// Reports every field that nobody asked for.
    pub fn finish(self) {
        for (key, _value, _taken) in self.fields.iter().filter(|(_key, _value, taken)| !taken) {
            let known = self.asked.join(", ");
            let what = match nearest(&key.name, &self.asked) {
                Some(near) => format!("no such field; did you mean {near:?}?"),
                None => format!("no such field; known here are {known}"),
            };
            let node = Node { path: join(&self.node.path, &key.name), ..self.node.clone() };
            self.faults.push(node.fault_at(key.at, what));
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Node<'a>> {
        self.asked.push(name);
        let field = self.fields.iter_mut().find(|(key, _value, _taken)| key.name == name)?;
        field.2 = true;
        let value = field.1;
        let given = !value.is_null();
        given.then(|| Node { file: self.node.file, path: join(&self.node.path, name), value })
    }

    fn read<T>(&mut self, node: &Node<'_>, read: Read<T>) -> Option<T> {
        match read(node.value) {
            Ok(value) => Some(value),
            Err(what) => {
                self.faults.push(node.fault(what));
                None
            }
        }
    }

    /// A field that must be there.
    pub fn required<T>(&mut self, name: &'static str, read: Read<T>) -> Option<T> {
        match self.take(name) {
            Some(node) => self.read(&node, read),
            None => {
                self.missing(name, "is required");
                None
            }
        }
    }

    /// Reports that a field is absent, at the mapping that lacks it.
    pub fn missing(&mut self, name: &str, what: impl Into<String>) {
        let node = Node { path: join(&self.node.path, name), ..self.node.clone() };
        self.faults.push(node.fault(what));
    }

    /// Reports a fault of a field that is there, at its value.
    pub fn at_fault(&mut self, name: &str, what: impl Into<String>) {
        let at = self.node.value.place_of(name);
        let node = Node { path: join(&self.node.path, name), ..self.node.clone() };
        self.faults.push(node.fault_at(at, what));
    }

    /// A field that may be absent: outer `None` when it is at fault.
    pub fn optional<T>(&mut self, name: &'static str, read: Read<T>) -> Option<Option<T>> {
        match self.take(name) {
            Some(node) => self.read(&node, read).map(Some),
            None => Some(None),
        }
    }

    /// A field that may be absent, with what then counts.
    pub fn or<T>(&mut self, name: &'static str, read: Read<T>, default: T) -> Option<T> {
        self.optional(name, read).map(|given| given.unwrap_or(default))
    }

    /// A field that is a list of plain values; `None` when absent.
    pub fn list<T>(&mut self, name: &'static str, read: Read<T>) -> Option<Option<Vec<T>>> {
        if !self.has(name) {
            self.asked.push(name);
            return Some(None);
        }
        let items = self.items(name);
        let whole = items.len();
        let read: Vec<T> = items.iter().filter_map(|item| self.read(item, read)).collect();
        (read.len() == whole).then_some(Some(read))
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(key, value, _taken)| key.name == name && !value.is_null())
    }

    /// The items of a list; none when it is absent, and a fault when it is not a list.
    pub fn items(&mut self, name: &'static str) -> Vec<Node<'a>> {
        let Some(node) = self.take(name) else { return Vec::new() };
        let Some(items) = node.items() else {
            self.faults.push(node.fault(format!("must be a list, this is {}", node.value.describe())));
            return Vec::new();
        };
        items
    }

    /// Reads each item of a list as a mapping; `None` when one is at fault.
    pub fn mappings<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Fields<'_, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let before = self.faults.len();
        let items = self.items(name);
        let read: Vec<T> = items.iter().filter_map(|item| self.mapping_of(item, &read)).collect();
        (self.faults.len() == before).then_some(read)
    }

    /// Reads a field that is one mapping or a list of mappings; none when it is absent, `None` when it is at fault.
    pub fn one_or_more<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Fields<'_, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Some(node) = self.take(name) else { return Some(Vec::new()) };
        let items = node.items().unwrap_or_else(|| vec![node]);
        let whole = items.len();
        let read: Vec<T> = items.iter().filter_map(|item| self.mapping_of(item, &read)).collect();
        (read.len() == whole).then_some(read)
    }

    /// Reads a field that is a mapping; inner `None` when it is absent, outer when it is at fault.
    pub fn mapping<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Fields<'_, '_>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.take(name) {
            None => Some(None),
            Some(node) => self.mapping_of(&node, &read).map(Some),
        }
    }

    /// Reads one mapping below this one.
    pub fn mapping_of<T>(
        &mut self,
        node: &Node<'_>,
        read: &impl Fn(&mut Fields<'_, '_>) -> Option<T>,
    ) -> Option<T> {
        let before = self.faults.len();
        let mut fields = Fields::open(node, self.faults)?;
        let value = read(&mut fields);
        fields.finish();
        value.filter(|_whole| self.faults.len() == before)
    }

    /// Records a fault of a node below this mapping.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The known name that `wrong` most likely meant.
fn nearest<'n>(wrong: &str, known: &[&'n str]) -> Option<&'n str> {
    let scored = known.iter().map(|name| (distance(wrong, name), *name));
    scored.min().filter(|(steps, name)| *steps <= 2.max(name.len() / 3)).map(|(_steps, name)| name)
}

/// Edits that turn one word into another (Levenshtein), one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut last = i + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(b.bytes()) {
            let here = (diagonal + usize::from(left != right)).min(last + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = here;
            last = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// A text. A bare number is one too: names may look like numbers.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn text(value: &Value) -> Result<String, String> {
    match &value.kind {
        Kind::Text(text) => Ok(text.clone()),
        Kind::Number(digits) => Ok(digits.clone()),
        Kind::Bool(_) => Err("must be a text, this is true or false; put it in quotes".to_owned()),
        Kind::Null | Kind::List(_) | Kind::Map(_) => {
            Err(format!("must be a text, this is {}", value.describe()))
        }
    }
}

/// The path of a file or a directory; a bare number is none.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn path(value: &Value) -> Result<PathBuf, String> {
    match &value.kind {
        Kind::Text(text) if text.is_empty() => Err("may not be empty; name a file or a directory".to_owned()),
        Kind::Text(text) => Ok(text.into()),
        Kind::Number(_) | Kind::Bool(_) | Kind::Null | Kind::List(_) | Kind::Map(_) => {
            Err(format!("must be a text, this is {}; put a path in quotes", value.describe()))
        }
    }
}

/// A name or another word with rules of its own.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn word<T: FromStr<Err = base::IdError>>(value: &Value) -> Result<T, String> {
    let text = text(value)?;
    text.parse().map_err(|error| format!("{text:?} {error}"))
}

/// An address and a port.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn address(value: &Value) -> Result<SocketAddr, String> {
    let text = text(value)?;
    text.parse().map_err(|_bad| {
        format!("{text:?} is not an address and a port, such as 127.0.0.1:7000 or [::1]:7000")
    })
}

/// The root of an OTLP/HTTP endpoint. Spans go there in cleartext: a collector runs beside the node and encrypts onwards.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn collector(value: &Value) -> Result<String, String> {
    let given = text(value)?;
    let uri = given.parse::<http::Uri>().ok();
    let good = uri.is_some_and(|uri| {
        uri.scheme() == Some(&http::uri::Scheme::HTTP) && uri.host().is_some() && uri.query().is_none()
    });
    if good {
        Ok(given)
    } else {
        Err("is no collector's address; give the root of its OTLP/HTTP endpoint, such as http://127.0.0.1:4318"
            .to_owned())
    }
}

/// True or false.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn flag(value: &Value) -> Result<bool, String> {
    match value.kind {
        Kind::Bool(flag) => Ok(flag),
        Kind::Null | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => {
            Err(format!("must be true or false, this is {}", value.describe()))
        }
    }
}

/// A whole number that fits `T`.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn whole<T: FromStr>(value: &Value) -> Result<T, String> {
    let (Kind::Number(digits) | Kind::Text(digits)) = &value.kind else {
        return Err(format!("must be a whole number, this is {}", value.describe()));
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("must be a whole number of digits, not {digits:?}"));
    }
    digits.parse().map_err(|_too_large| format!("{digits} is too large"))
}

/// An exact amount of dollars.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn dollars(value: &Value) -> Result<NanoUsd, String> {
    match &value.kind {
        Kind::Number(digits) | Kind::Text(digits) => decimal::dollars(digits),
        Kind::Null | Kind::Bool(_) | Kind::List(_) | Kind::Map(_) => {
            Err(format!("must be an amount of dollars, this is {}", value.describe()))
        }
    }
}

/// Digits that are read once their unit is known.
///
/// # Errors
/// What is wrong and the mend, in words.
pub fn number(value: &Value) -> Result<String, String> {
    match &value.kind {
        Kind::Number(digits) | Kind::Text(digits) => Ok(digits.clone()),
        Kind::Null | Kind::Bool(_) | Kind::List(_) | Kind::Map(_) => {
            Err(format!("must be a number, this is {}", value.describe()))
        }
    }
}
