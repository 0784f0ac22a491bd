//! Reading a TOML table key by key: each getter takes its key out, checks it, and notes a mistake rather than stop.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key concerned, as a path; empty when the file is no TOML.
    pub key: String,
    /// What is wrong and how to mend it.
    pub what: String,
}

/// Everything wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// In order of their places; never empty.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.mistakes.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            let colon = if mistake.key.is_empty() { "" } else { ": " };
            write!(f, "{separator}{}:{}:{}: ", self.file, mistake.line, mistake.column)?;
            write!(f, "{}{colon}{}", mistake.key, mistake.what)?;
        }
        Ok(())
    }
}

/// Where mistakes are gathered.
#[derive(Debug)]
pub(super) struct Source<'a> {
    file: &'a str,
    text: &'a str,
    mistakes: RefCell<Vec<(usize, Mistake)>>,
}

impl<'a> Source<'a> {
    pub(super) const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, mistakes: RefCell::new(Vec::new()) }
    }

    /// The file's table; what is no TOML is noted.
    pub(super) fn table(&self) -> Table<'a, '_> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            self.note(error.span().map_or(0, |span| span.start), "", error.message().to_owned());
        }
        Table { source: self, path: String::new(), start: 0, entries: root.into_inner() }
    }

    /// `value` when nothing was wrong.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, ConfigError> {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|(at, _)| *at);
        match value {
            Some(value) if mistakes.is_empty() => Ok(value),
            Some(_) | None => Err(ConfigError {
                file: self.file.to_owned(),
                mistakes: mistakes.into_iter().map(|(_, mistake)| mistake).collect(),
            }),
        }
    }

    fn note(&self, at: usize, key: &str, what: String) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        self.mistakes.borrow_mut().push((at, Mistake { line, column, key: key.to_owned(), what }));
    }
}

/// A table whose keys are taken out one by one; what is left at the end is unknown.
#[derive(Debug)]
pub(super) struct Table<'a, 's> {
    source: &'s Source<'a>,
    path: String,
    start: usize,
    entries: DeTable<'a>,
}

/// A value that was taken out.
struct Taken<'a> {
    value: DeValue<'a>,
    span: Range<usize>,
}

impl<'a, 's> Table<'a, 's> {
    fn take(&mut self, key: &str) -> Option<Taken<'a>> {
        let value = self.entries.remove(key)?;
        let span = value.span();
        Some(Taken { value: value.into_inner(), span })
    }

    fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes a mistake of this table.
    pub(super) fn note(&self, key: &str, what: String) {
        self.source.note(self.start, &self.path(key), what);
    }

    fn wrong<T>(&self, key: &str, span: &Range<usize>, what: String) -> Option<T> {
        self.source.note(span.start, &self.path(key), what);
        None
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The value of a key that must be there.
    pub(super) fn need<T>(
        &mut self,
        key: &str,
        example: &str,
        get: impl FnOnce(&mut Self, &str) -> Option<T>,
    ) -> Option<T> {
        if !self.has(key) {
            self.note(key, format!("is missing; add `{key} = {example}`"));
            return None;
        }
        get(self, key)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let taken = self.take(key)?;
        match taken.value {
            DeValue::String(text) if !text.is_empty() => Some(text.into_owned()),
            other => self.wrong(key, &taken.span, format!("must be a text, not {}", kind(&other))),
        }
    }

    pub(super) fn path_to(&mut self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        let taken = self.take(key)?;
        match taken.value {
            DeValue::Boolean(flag) => Some(flag),
            other => self.wrong(key, &taken.span, format!("must be true or false, not {}", kind(&other))),
        }
    }

    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let taken = self.take(key)?;
        let (low, high) = (range.start(), range.end());
        let DeValue::Integer(digits) = &taken.value else {
            let what = format!("must be a whole number from {low} to {high}, not {}", kind(&taken.value));
            return self.wrong(key, &taken.span, what);
        };
        match u64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            Ok(_) | Err(_) => {
                self.wrong(key, &taken.span, format!("must be from {low} to {high}, this is {digits}"))
            }
        }
    }

    pub(super) fn small(&mut self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = u64::from(*range.start())..=u64::from(*range.end());
        self.number(key, wide).and_then(|number| u32::try_from(number).ok())
    }

    /// A time in milliseconds, up to a day.
    pub(super) fn millis(&mut self, key: &str) -> Option<Duration> {
        self.number(key, 1..=86_400_000).map(Duration::from_millis)
    }

    pub(super) fn address(&mut self, key: &str) -> Option<SocketAddr> {
        let taken = self.take(key)?;
        self.one_address(key, &taken.value, &taken.span)
    }

    pub(super) fn addresses(&mut self, key: &str) -> Option<Vec<SocketAddr>> {
        let taken = self.take(key)?;
        let DeValue::Array(list) = taken.value else {
            let what = "must be a list of addresses such as [\"10.0.0.1:7400\"]";
            return self.wrong(key, &taken.span, what.to_owned());
        };
        if list.is_empty() {
            return self.wrong(key, &taken.span, "may not be empty; name at least one address".to_owned());
        }
        let read = |item: Spanned<DeValue<'a>>| {
            let span = item.span();
            self.one_address(key, &item.into_inner(), &span)
        };
        list.into_iter().map(read).collect::<Vec<_>>().into_iter().collect()
    }

    fn one_address(&self, key: &str, value: &DeValue<'_>, span: &Range<usize>) -> Option<SocketAddr> {
        const FORM: &str = "must be an IP address and a port such as \"10.0.0.1:7400\" or \"[::1]:7400\"";
        let DeValue::String(text) = value else {
            return self.wrong(key, span, format!("{FORM}, not {}", kind(value)));
        };
        match text.parse() {
            Ok(address) => Some(address),
            Err(_no_address) => self.wrong(key, span, format!("{FORM}, not {text:?}")),
        }
    }

    /// A table within this one; an empty one when it is absent.
    pub(super) fn table(&mut self, key: &str) -> Self {
        let (path, source) = (self.path(key), self.source);
        let (start, entries) = match self.take(key) {
            Some(Taken { value: DeValue::Table(entries), span }) => (span.start, entries),
            Some(taken) => {
                let what = format!("must be a table, not {}", kind(&taken.value));
                source.note(taken.span.start, &path, what);
                (taken.span.start, DeTable::new())
            }
            None => (self.start, DeTable::new()),
        };
        Table { source, path, start, entries }
    }

    /// A list of tables (`[[key]]`).
    pub(super) fn tables(&mut self, key: &str) -> Vec<Self> {
        let (path, source) = (self.path(key), self.source);
        let Some(taken) = self.take(key) else { return Vec::new() };
        let DeValue::Array(list) = taken.value else {
            source.note(taken.span.start, &path, format!("must be a list of tables, written [[{path}]]"));
            return Vec::new();
        };
        let tables = list.into_iter().enumerate().filter_map(|(at, item)| {
            let (path, start) = (format!("{path}[{at}]"), item.span().start);
            match item.into_inner() {
                DeValue::Table(entries) => Some(Table { source, path, start, entries }),
                other => {
                    source.note(start, &path, format!("must be a table, not {}", kind(&other)));
                    None
                }
            }
        });
        tables.collect()
    }

    /// Notes every key that nobody took; `known` are all there are.
    pub(super) fn end(self, known: &str) {
        for (key, _value) in &self.entries {
            let path = self.path(key.get_ref());
            self.source.note(key.span().start, &path, format!("is unknown; known here are {known}"));
        }
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(text) if text.is_empty() => "an empty text",
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
