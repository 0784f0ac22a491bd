//! What a stream has cost so far, where a strict budget pays for it: its texts are counted as they come, and once they come to
//! more than is held, the call is over.
//!
//! Texts are counted some hundred bytes at a time, at blanks, so that no word is counted as two. Where the model's tokenizer
//! is not known, another stands for it, and only [`SURE_PER_MILLE`] of its count is taken to be written: a model that keeps
//! to its cap is not ended. What is not sent, such as hidden reasoning, is not seen; its bill is `debt`.

use base::{BudgetId, Name, Tokens, Usage};
use bytes::Bytes;
use dialect::Target;
use edge_core::spending::Spending;
use tokens::Tokenizer;
use wire::catalog::Mode;

use super::Open;
use crate::counting::Counting;
use crate::payers::Payer;

/// Vocabularies of about this size differ by less on any script.
const SURE_PER_MILLE: u64 = 700;
/// A tokenizer of a file may begin each piece with a token that the whole text does not have.
const SURE_BY_FILE_PER_MILLE: u64 = 900;

/// Bytes of text that are counted at once; fewer wait for more.
const AT_ONCE: usize = 256;

/// Bytes of text that wait for a blank: some scripts have none.
const WITHOUT_BLANK: usize = 1024;

/// Bytes of text that wait while the vocabulary is built.
const UNBUILT: usize = 64 * 1024;

/// A stream whose strict budgets hold no more than its bounds.
#[derive(Debug)]
pub(super) struct Metered {
    /// The API of its events.
    target: Target,
    spending: Spending,
    counting: Counting,
    tokenizer: Tokenizer,
    /// How much of a count is certainly written, in thousandths.
    sure: u64,
    counted: Tokens,
    /// Text that is not counted yet.
    rest: String,
}

/// A stream that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Because this budget holds no more.
    pub(crate) budget: Name,
    /// Output tokens that were written by then.
    pub(super) written: Tokens,
}

impl Metered {
    /// Of a call whose answer begins; `None` when it does not stream, or no strict budget pays for it.
    pub(super) fn of(open: &Open) -> Option<Self> {
        let (attempt, _bound) = open.attempt.as_ref().filter(|_| open.stream)?;
        let held = |payer: &Payer| {
            let strict = matches!(payer.budget.mode, Mode::Strict);
            let (_id, held) = open.asks().iter().find(|(id, _held)| strict && *id == payer.id())?;
            Some((payer.id(), payer.budget.unit, *held))
        };
        let held: Vec<_> = open.payers().filter_map(held).collect();
        if held.is_empty() {
            return None;
        }
        let counting = open.edge.counting.clone();
        let (tokenizer, sure) = match counting.tokenizer(&attempt.candidate.model) {
            Some(own @ (Tokenizer::Cl100kBase | Tokenizer::O200kBase)) => (own, 1_000),
            Some(own @ Tokenizer::File(_)) => (own, SURE_BY_FILE_PER_MILLE),
            None => (Tokenizer::O200kBase, SURE_PER_MILLE),
        };
        counting.build(&open.edge.host, &tokenizer);
        let spending = Spending::new(open.price().cloned(), held);
        let (counted, rest) = (Tokens(0), String::new());
        let target = egress::target_of(attempt.candidate.model.dialect);
        Some(Self { target, spending, counting, tokenizer, sure, counted, rest })
    }

    /// More was written, in the target's API. Whether a count of it is due.
    pub(super) fn take(&mut self, events: &Bytes) -> bool {
        self.target.written(events, |text| self.rest.push_str(text));
        self.rest.len() >= AT_ONCE && (self.counting.is_built(&self.tokenizer) || self.rest.len() > UNBUILT)
    }

    /// Output tokens that are certainly written.
    pub(super) fn written(&mut self) -> Tokens {
        let blank = self.rest.rfind(|character: char| character.is_ascii_whitespace());
        let end = match blank.filter(|end| *end > 0) {
            Some(end) => end,
            None if self.rest.len() >= WITHOUT_BLANK => self.rest.len(),
            None => 0,
        };
        let later = self.rest.split_off(end);
        self.counted = self.counted.saturating_add(self.tokenizer.count(&self.rest).unwrap_or_default());
        self.rest = later;
        Tokens(self.counted.0.saturating_mul(self.sure) / 1_000)
    }

    /// The budget that holds less than a call comes to that used this.
    pub(super) fn passed(&self, usage: &Usage) -> Option<BudgetId> {
        self.spending.passed(usage)
    }
}
