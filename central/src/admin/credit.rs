//! What operators decide about credit: lost edges and corrections.
//!
//! A decision is proposed under its number until an answer comes; under one number it is made once, whoever asks again.

use axum::extract::State;
use axum::{Extension, Json};
use base::{Amount, Incarnation, Name, UserHash};
use central_core::ledger::{self, Decision, Ledger, Verdict};
use central_core::{Command, Reply};

use super::refused::Refused;
use super::taken::{Named, Whole};
use super::{Answer, By, Door, Operator, Shared, api, parsed};
use crate::consensus::ProposeError;

/// How often a decision is proposed when nobody says what became of it.
const TRIES: usize = 4;

/// The longest number and the longest reason, in bytes.
const LONGEST: (usize, usize) = (64, 1_024);

pub(super) async fn lost(
    State(door): Shared,
    Extension(by): By,
    Named(edge): Named<Name>,
    Whole(body): Whole,
) -> Answer<api::Decided> {
    let api::Lost { reason, refund, life, id } = parsed(&body)?;
    let done = door.lost(&by, (edge.clone(), life, refund), (id, reason.clone())).await;
    audit(&by, if refund { "refund lost edge" } else { "write off lost edge" }, (&edge, &reason), &done);
    done.map(Json)
}

pub(super) async fn correct(
    State(door): Shared,
    Extension(by): By,
    Named(budget): Named<Name>,
    Whole(body): Whole,
) -> Answer<api::Decided> {
    let api::Correction { reason, user, window, charge, credit, id } = parsed(&body)?;
    let (amount, is_credit) = match (charge, credit) {
        (Some(amount), None) => (amount, false),
        (None, Some(amount)) => (amount, true),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Refused::bad_request("say either charge or credit, in the budget's unit"));
        }
    };
    if amount == Amount::ZERO {
        return Err(Refused::bad_request("a correction of nothing corrects nothing"));
    }
    let user = user.as_deref().map(super::usage::user).transpose();
    let (of, credit) = (budget.clone(), is_credit);
    let what = match user.map_err(|why| Refused::bad_request(format!("user: {why}")))? {
        Some(user) => Verdict::CorrectUser { budget: of, user, window, amount, credit },
        None => Verdict::Correct { budget: of, window, amount, credit },
    };
    let done = door.decide(&by, what, (id, reason.clone())).await;
    audit(&by, "correct budget", (&budget, &reason), &done);
    done.map(Json)
}

pub(super) async fn decisions(State(door): Shared) -> Answer<api::Decisions> {
    door.consensus.read_index().await?;
    let decisions = door.consensus.read(|state| {
        let ledger = state.ledger();
        ledger.decided().rev().map(|decided| shown(ledger, decided)).collect()
    });
    Ok(Json(api::Decisions { decisions }))
}

/// A budget, or whose account of it.
fn account(row: &api::DecidedRow) -> String {
    row.user.as_ref().map_or_else(|| row.budget.to_string(), |user| format!("{} of {user}", row.budget))
}

/// One line per decision, whatever came of it.
fn audit(by: &Operator, action: &str, (what, why): (&Name, &str), done: &Result<api::Decided, Refused>) {
    let by = &by.0;
    let why: String = why.chars().take(LONGEST.1).collect();
    match done {
        Ok(done) => {
            let rows: Vec<String> =
                done.rows.iter().map(|row| format!("{}: {}", account(row), row.amount.0)).collect();
            tracing::info!(target: "audit", by, action, %what, why, id = done.id, rows = rows.join(", "), "done");
        }
        Err(refused) => {
            tracing::warn!(target: "audit", by, action, %what, why, because = refused.message(), "refused");
        }
    }
}

impl Door {
    /// An edge that is attached is not lost: what it holds, it spends.
    async fn lost(
        &self,
        by: &Operator,
        (edge, life, refund): (Name, Option<Incarnation>, bool),
        told: (Option<String>, String),
    ) -> Result<api::Decided, Refused> {
        self.consensus.read_index().await?;
        let current = self.consensus.read(|state| {
            let node = state.registry().edges.get(&edge)?;
            Some(node.incarnation)
        });
        if life.is_none() || life == current {
            let status = self.overview.status().await;
            let at =
                status.edges.iter().find(|row| row.name == edge).and_then(|row| row.attached_to.as_ref());
            if let Some(central) = at {
                return Err(Refused::conflict(format!(
                    "{edge} is attached to {central} and spends what it holds: stop it first, or name a former life of \
                     it (`portolan leases`)"
                )));
            }
        }
        self.decide(by, Verdict::Lost { edge, life, refund }, told).await
    }

    async fn decide(
        &self,
        by: &Operator,
        what: Verdict,
        (id, reason): (Option<String>, String),
    ) -> Result<api::Decided, Refused> {
        let (longest_id, longest_reason) = LONGEST;
        if reason.trim().is_empty() || reason.len() > longest_reason || reason.chars().any(char::is_control) {
            let why = format!(
                "reason: say why, in one line of at most {longest_reason} bytes without control characters"
            );
            return Err(Refused::bad_request(why));
        }
        let id = id.unwrap_or_else(|| format!("{:032x}", self.host.random_u128()));
        if id.is_empty() || id.len() > longest_id || id.chars().any(char::is_control) {
            let why = format!("id: 1 to {longest_id} bytes without control characters");
            return Err(Refused::bad_request(why));
        }
        let decision = Decision { id, by: by.0.clone(), reason, what };
        let mut tried = None;
        for _try in 0..TRIES {
            match self.consensus.propose(Command::Decide(decision.clone())).await {
                Ok(Reply::Decided(decided))
                    if (&decided.decision.what, &decided.decision.reason)
                        == (&decision.what, &decision.reason) =>
                {
                    return Ok(self.consensus.read(|state| shown(state.ledger(), &decided)));
                }
                Ok(Reply::Decided(_other)) => {
                    return Err(Refused::conflict(format!(
                        "id {} was given to another decision, or one with another reason, already",
                        decision.id
                    )));
                }
                Ok(Reply::Refused(refusal)) => return Err(refusal.into()),
                Ok(_another) => return Err(Refused::internal("the log answered another question")),
                Err(error @ ProposeError::Unknown(_)) => tried = Some(error),
                Err(error) => return Err(tried.unwrap_or(error).into()),
            }
        }
        let why = format!("nobody said what became of it; ask again under id {}", decision.id);
        Err(Refused::unknown(&why))
    }
}

fn shown(ledger: &Ledger, decided: &ledger::Decided) -> api::Decided {
    let ledger::Decided { at, decision, rows } = decided;
    let (action, edge) = match &decision.what {
        Verdict::Lost { edge, refund: false, .. } => (api::Action::WriteOff, Some(edge.clone())),
        Verdict::Lost { edge, refund: true, .. } => (api::Action::Refund, Some(edge.clone())),
        Verdict::Correct { credit: false, .. } | Verdict::CorrectUser { credit: false, .. } => {
            (api::Action::Charge, None)
        }
        Verdict::Correct { credit: true, .. } | Verdict::CorrectUser { credit: true, .. } => {
            (api::Action::Credit, None)
        }
    };
    let row = |row: &ledger::DecidedRow| {
        let budget = ledger.budget(row.budget)?;
        let (name, unit) = (budget.name.clone(), budget.unit);
        let user = Some(UserHash(row.budget.user())).filter(|user| user.0 != 0).map(|user| user.to_string());
        let (window, life, amount) = (row.window, row.life, row.amount);
        Some(api::DecidedRow { budget: name, user, unit, window, life, amount })
    };
    api::Decided {
        id: decision.id.clone(),
        at: *at,
        by: decision.by.clone(),
        reason: decision.reason.clone(),
        action,
        edge,
        rows: rows.iter().filter_map(row).collect(),
    }
}
