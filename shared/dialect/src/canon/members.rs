//! A JSON object whose members are taken one by one, so that what nobody took is known.

use serde_json::{Map, Number, Value};

use super::{Losses, Unfit};

/// The members of one object that are not taken yet. A null is as absent.
#[derive(Clone, Debug)]
pub struct Members {
    path: String,
    left: Map<String, Value>,
}

/// The members of one array, with their paths.
pub type Items = Vec<(String, Value)>;

impl Members {
    /// The object that `value` is; `path` is where it stands, empty for the body itself.
    ///
    /// # Errors
    /// [`Unfit`] when it is none.
    pub fn of(path: impl Into<String>, value: Value) -> Result<Self, Unfit> {
        let path = path.into();
        match value {
            Value::Object(left) => Ok(Self { path, left }),
            other => Err(Unfit::new(path, format!("must be an object, not {}", kind(&other)))),
        }
    }

    /// Where a member stands.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Where the object stands.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.path
    }

    /// Whether a member is there and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(|value| !value.is_null())
    }

    /// A member.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// A member that must be there.
    ///
    /// # Errors
    /// [`Unfit`] when it is not.
    pub fn need(&mut self, name: &str) -> Result<Value, Unfit> {
        self.take(name).ok_or_else(|| Unfit::new(self.path(name), "is missing"))
    }

    /// A text.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Unfit> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// [`Unfit`] when it is not, or is something else.
    pub fn need_text(&mut self, name: &str) -> Result<String, Unfit> {
        self.text(name)?.ok_or_else(|| Unfit::new(self.path(name), "is missing"))
    }

    /// A number, as it is written.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn number(&mut self, name: &str) -> Result<Option<Number>, Unfit> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(self.wrong(name, "a number", &other)),
        }
    }

    /// A count.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn count(&mut self, name: &str) -> Result<Option<u64>, Unfit> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) => Ok(Some(count)),
                None => Err(self.wrong(name, "a whole number from 0", &value)),
            },
        }
    }

    /// Yes or no.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, Unfit> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// An object.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn object(&mut self, name: &str) -> Result<Option<Self>, Unfit> {
        let path = self.path(name);
        self.take(name).map(|value| Self::of(path, value)).transpose()
    }

    /// The members of an array; none when it is absent.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn items(&mut self, name: &str) -> Result<Items, Unfit> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(numbered(&self.path(name), items)),
            Some(other) => Err(self.wrong(name, "an array", &other)),
        }
    }

    /// Texts of an array; none when it is absent.
    ///
    /// # Errors
    /// [`Unfit`] when it is something else.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, Unfit> {
        let text = |(path, value)| match value {
            Value::String(text) => Ok(text),
            other => Err(Unfit::new(path, format!("must be a string, not {}", kind(&other)))),
        };
        self.items(name)?.into_iter().map(text).collect()
    }

    /// All that is left, as it is.
    #[must_use]
    pub fn rest(self) -> Map<String, Value> {
        self.left
    }

    /// What nobody took is lost.
    pub fn finish(self, losses: &mut Losses) {
        for (name, value) in &self.left {
            if !value.is_null() {
                losses.drop(self.path(name), "");
            }
        }
    }

    fn wrong(&self, name: &str, wanted: &str, got: &Value) -> Unfit {
        Unfit::new(self.path(name), format!("must be {wanted}, not {}", kind(got)))
    }
}

/// The members of the array at `path`, with their paths.
pub(crate) fn numbered(path: &str, items: Vec<Value>) -> Items {
    items.into_iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
}

pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_took_is_lost_by_its_path() {
        let mut body = Members::of("", json!({"a": 1, "b": null, "c": {"d": "x", "e": 2}})).unwrap();
        let mut losses = Losses::of(|_facet| "");
        assert_eq!(body.count("a"), Ok(Some(1)));
        let mut inner = body.object("c").unwrap().unwrap();
        assert_eq!(inner.text("d"), Ok(Some("x".to_owned())));
        inner.finish(&mut losses);
        body.finish(&mut losses);
        let told: Vec<_> = losses.told().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["c.e"]);
    }

    #[test]
    fn a_wrong_type_is_told_with_its_place() {
        let mut body = Members::of("", json!({"messages": [{"role": 7}]})).unwrap();
        let (path, item) = body.items("messages").unwrap().remove(0);
        let error = Members::of(path, item).unwrap().text("role").unwrap_err();
        assert_eq!(error.to_string(), "`messages[0].role` must be a string, not a number");
    }
}
