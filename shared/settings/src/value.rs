//! The tree of a file.

/// Where a value begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where it begins.
    pub at: Place,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was written.
    Null,
    /// True or false.
    Bool(bool),
    /// Digits as they were written.
    Number(String),
    /// Characters.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Fields in order.
    Map(Vec<(Key, Value)>),
}

/// A field's name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where it begins.
    pub at: Place,
    /// Its name.
    pub name: String,
}

/// The text is not of its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where, as far as the reader knows.
    pub at: Place,
    /// Why.
    pub what: String,
}

impl Value {
    /// Whether nothing was written.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// What the value is, in words.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// The place of the field that `path` (such as `replicas[0].url`) names, or of the nearest value around it.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Place {
        let mut value = self;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let below = match (&value.kind, step.strip_suffix(']')) {
                (Kind::List(items), Some(index)) => index.parse::<usize>().ok().and_then(|at| items.get(at)),
                (Kind::Map(fields), None) => {
                    fields.iter().find(|(key, _value)| key.name == step).map(|(_key, value)| value)
                }
                (_scalar, _step) => None,
            };
            let Some(below) = below else { break };
            value = below;
        }
        value.at
    }
}
