//! One request in a model server's log; what is dropped before its end was left by the gateway or killed.

use crate::history::{Recorder, Served, ServedEnd};

use super::reply::Ask;

/// One request in the log.
#[derive(Debug)]
pub(super) struct Entry {
    recorder: Recorder,
    at: usize,
}

impl Entry {
    pub(super) fn new(
        recorder: &Recorder,
        server: &str,
        (by, credential): (Option<String>, Option<String>),
        ask: &Ask,
    ) -> Self {
        let served = Served {
            server: server.to_owned(),
            by,
            call: ask.call,
            credential,
            model: ask.model.clone(),
            asked: recorder.now(),
            first_token: None,
            ended: None,
            end: ServedEnd::Open,
            input: ask.input,
            output: 0,
            told: None,
        };
        let at = recorder.write(|history| {
            history.served.push(served);
            if let Some(call) = ask.call {
                history.extras.entry(call).or_default().reached.push(ask.tools);
            }
            history.served.len() - 1
        });
        Self { recorder: recorder.clone(), at }
    }

    /// A token leaves.
    pub(super) fn token(&self) {
        let now = self.recorder.now();
        self.change(|served| {
            served.first_token.get_or_insert(now);
            served.output += 1;
        });
    }

    /// The usage leaves.
    pub(super) fn told(&self, usage: Option<(u64, u64)>) {
        self.change(|served| served.told = usage);
    }

    pub(super) fn end(&self, end: ServedEnd) {
        let now = self.recorder.now();
        self.change(|served| {
            if served.end == ServedEnd::Open {
                served.end = end;
                served.ended = Some(now);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Served)) {
        self.recorder.write(|history| {
            if let Some(served) = history.served.get_mut(self.at) {
                change(served);
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(ServedEnd::Left);
    }
}
