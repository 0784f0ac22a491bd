//! What differs among the targets that speak this API.

/// How a target takes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// How it takes schemas.
    pub schemas: Schemas,
    /// Which line of models it is of.
    pub line: Line,
    /// Whether it takes no ids of calls and results: older versions of Vertex refuse the field, and pair by order.
    pub no_ids: bool,
    /// Whether it is Vertex, which counts tokens of a call's own fields and not of a whole call in one.
    pub vertex: bool,
}

/// In which form a target takes schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schemas {
    /// As JSON Schema, in `parametersJsonSchema` and `responseJsonSchema`.
    #[default]
    Json,
    /// As the subset of an `OpenAPI` schema that `parameters` and `responseSchema` take.
    Subset,
}

/// The lines of models that are asked differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// From Gemini 3 on: how much to think is a level, and a call of a tool is refused without its signature.
    #[default]
    Levels,
    /// Of these, the larger ones, which take the levels low and high only.
    TwoLevels,
    /// Before: how much to think is a number of tokens.
    Budgets,
}

impl Target {
    /// What Google's own service with the model of this name is like.
    #[must_use]
    pub fn of(model: &str) -> Self {
        Self { schemas: Schemas::of(model), line: Line::of(model), no_ids: false, vertex: false }
    }
}

impl Schemas {
    /// The form that a model's name tells: JSON Schema came with Gemini 2.5.
    #[must_use]
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let old = ["gemini-1", "gemini-2.0", "gemma", "learnlm"];
        if old.iter().any(|prefix| name.starts_with(prefix)) { Self::Subset } else { Self::Json }
    }
}

impl Line {
    /// The line that a model's name tells; the newer one where it tells none.
    #[must_use]
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let old = ["gemini-1", "gemini-2", "gemma", "learnlm"];
        if old.iter().any(|prefix| name.starts_with(prefix)) {
            Self::Budgets
        } else if name.contains("-pro") {
            Self::TwoLevels
        } else {
            Self::Levels
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_schemas_follows_from_the_name() {
        assert_eq!(Target::of("models/gemini-2.0-flash-001").schemas, Schemas::Subset);
        assert_eq!(Target::of("gemini-2.5-pro").schemas, Schemas::Json);
        assert_eq!(Target::of("gemini-3-pro-preview").schemas, Schemas::Json);
    }

    #[test]
    fn the_line_follows_from_the_name() {
        for (name, line) in [
            ("gemini-2.5-flash", Line::Budgets),
            ("publishers/google/models/gemini-2.0-flash-001", Line::Budgets),
            ("models/gemini-3-pro-preview", Line::TwoLevels),
            ("gemini-3-flash-preview", Line::Levels),
            ("gemini-flash-latest", Line::Levels),
        ] {
            assert_eq!(Line::of(name), line, "{name}");
        }
    }
}
