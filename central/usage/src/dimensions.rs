//! By what totals can be taken apart, and the combination of them that a receipt has.

use std::fmt;
use std::str::FromStr;

use base::{Code, ModelName, Name, RegionName, TenantName};
use rusqlite::Row;
use serde::{Deserialize, Serialize};
use wire::catalog::Operation;
use wire::ledger::{Outcome, Receipt, ReceiptKind};

use crate::StoreError;

/// A way to take totals apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Who pays.
    Tenant,
    /// The application.
    App,
    /// The key, by name.
    Key,
    /// The scenario that the caller said.
    Scenario,
    /// What was asked for.
    Model,
    /// The provider, when central served it.
    Provider,
    /// The provider's key that it was served with.
    ProviderKey,
    /// The region of the edge that took the call.
    Region,
    /// The region, or central, that served it.
    ServedBy,
    /// What was asked to be done.
    Operation,
    /// How the call ended.
    Outcome,
    /// Why, when it did not end well.
    Code,
    /// How the receipt came about.
    Kind,
    /// The hour, UTC, in which the call ended.
    Hour,
    /// The day, UTC, in which the call ended.
    Day,
}

impl Dimension {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Tenant,
        Self::App,
        Self::Key,
        Self::Scenario,
        Self::Model,
        Self::Provider,
        Self::ProviderKey,
        Self::Region,
        Self::ServedBy,
        Self::Operation,
        Self::Outcome,
        Self::Code,
        Self::Kind,
        Self::Hour,
        Self::Day,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::App => "app",
            Self::Key => "key",
            Self::Scenario => "scenario",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::ProviderKey => "provider_key",
            Self::Region => "region",
            Self::ServedBy => "served_by",
            Self::Operation => "operation",
            Self::Outcome => "outcome",
            Self::Code => "code",
            Self::Kind => "kind",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dimension {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|one| one.as_str() == text);
        found.ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
            format!("there is no dimension {text:?}; there are {}", all.join(", "))
        })
    }
}

/// A receipt's dimensions but for its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dimensions {
    pub(crate) kind: ReceiptKind,
    pub(crate) tenant: TenantName,
    pub(crate) app: Name,
    pub(crate) key: Name,
    pub(crate) scenario: Option<Name>,
    pub(crate) model: Option<ModelName>,
    pub(crate) provider: Option<Name>,
    pub(crate) provider_key: Option<Name>,
    pub(crate) region: RegionName,
    pub(crate) served_by: Option<String>,
    pub(crate) operation: Option<Operation>,
    pub(crate) outcome: Outcome,
    pub(crate) code: Option<Code>,
}

/// The columns of [`Dimensions`], in the order in which they are written and read.
pub(crate) const COLUMNS: &str = "kind, tenant, app, key, model, provider, region, served_by, operation, outcome, code, provider_key, scenario";

/// How many columns these are.
pub(crate) const COUNT: usize = 13;

impl Dimensions {
    /// The receipt's.
    #[must_use]
    pub fn of(receipt: &Receipt) -> Self {
        Self {
            kind: receipt.kind,
            tenant: receipt.tenant.clone(),
            app: receipt.app.clone(),
            key: receipt.key.clone(),
            scenario: receipt.scenario.clone(),
            model: receipt.model.clone(),
            provider: receipt.provider.clone(),
            provider_key: receipt.provider_key.clone(),
            region: receipt.region.clone(),
            served_by: receipt.served_by.clone(),
            operation: receipt.operation,
            outcome: receipt.outcome,
            code: receipt.code,
        }
    }

    /// As columns; what there is none of is empty.
    pub(crate) fn columns(&self) -> [&str; COUNT] {
        [
            kind(self.kind),
            self.tenant.as_str(),
            self.app.as_str(),
            self.key.as_str(),
            self.model.as_ref().map_or("", ModelName::as_str),
            self.provider.as_ref().map_or("", Name::as_str),
            self.region.as_str(),
            self.served_by.as_deref().unwrap_or(""),
            self.operation.map_or("", Operation::as_str),
            outcome(self.outcome),
            self.code.map_or("", Code::as_str),
            self.provider_key.as_ref().map_or("", Name::as_str),
            self.scenario.as_ref().map_or("", Name::as_str),
        ]
    }

    /// From columns, the first of which is `first`.
    pub(crate) fn read(row: &Row<'_>, first: usize) -> Result<Self, StoreError> {
        let text = |at: usize| -> Result<String, StoreError> { Ok(row.get(first + at)?) };
        Ok(Self {
            kind: word(&text(0)?, &KINDS, kind)?,
            tenant: parsed(&text(1)?)?,
            app: parsed(&text(2)?)?,
            key: parsed(&text(3)?)?,
            scenario: optional(&text(12)?, parsed)?,
            model: optional(&text(4)?, parsed)?,
            provider: optional(&text(5)?, parsed)?,
            provider_key: optional(&text(11)?, parsed)?,
            region: parsed(&text(6)?)?,
            served_by: optional(&text(7)?, |text| Ok(text.to_owned()))?,
            operation: optional(&text(8)?, |text| word(text, &OPERATIONS, Operation::as_str))?,
            outcome: word(&text(9)?, &OUTCOMES, outcome)?,
            code: optional(&text(10)?, |text| word(text, Code::ALL, Code::as_str))?,
        })
    }

    /// The dimension's value; empty where there is none, and for times, which are not here.
    #[must_use]
    pub fn text(&self, dimension: Dimension) -> &str {
        match dimension {
            Dimension::Tenant => self.tenant.as_str(),
            Dimension::App => self.app.as_str(),
            Dimension::Key => self.key.as_str(),
            Dimension::Scenario => self.scenario.as_ref().map_or("", Name::as_str),
            Dimension::Model => self.model.as_ref().map_or("", ModelName::as_str),
            Dimension::Provider => self.provider.as_ref().map_or("", Name::as_str),
            Dimension::ProviderKey => self.provider_key.as_ref().map_or("", Name::as_str),
            Dimension::Region => self.region.as_str(),
            Dimension::ServedBy => self.served_by.as_deref().unwrap_or(""),
            Dimension::Operation => self.operation.map_or("", Operation::as_str),
            Dimension::Outcome => outcome(self.outcome),
            Dimension::Code => self.code.map_or("", Code::as_str),
            Dimension::Kind => kind(self.kind),
            Dimension::Hour | Dimension::Day => "",
        }
    }
}

const KINDS: [ReceiptKind; 2] = [ReceiptKind::Call, ReceiptKind::Crash];

const fn kind(kind: ReceiptKind) -> &'static str {
    match kind {
        ReceiptKind::Call => "call",
        ReceiptKind::Crash => "crash",
    }
}

const OUTCOMES: [Outcome; 5] =
    [Outcome::Complete, Outcome::CallerGone, Outcome::Cut, Outcome::Failed, Outcome::Lost];

const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::CallerGone => "caller_gone",
        Outcome::Cut => "cut",
        Outcome::Failed => "failed",
        Outcome::Lost => "lost",
    }
}

const OPERATIONS: [Operation; 2] = [Operation::Chat, Operation::Embeddings];

fn parsed<T: FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_unreadable| unknown(text))
}

fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

fn word<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, StoreError> {
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| unknown(text))
}

fn unknown(text: &str) -> StoreError {
    StoreError::Damaged(format!("{text:?} is not known here"))
}
