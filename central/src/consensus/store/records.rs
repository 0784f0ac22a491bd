//! What the write-ahead log's records say. A kind's meaning and encoding never change; a new form is a new kind.

use base::NodeId;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wal::Record;
use wire::codec;

use crate::consensus::types::{LogEntry, LogId, Vote};

const OWNER: u8 = 1;
const VOTE: u8 = 2;
const ENTRY: u8 = 3;
const TRUNCATE: u8 = 4;
const PURGE: u8 = 5;
const COMMITTED: u8 = 6;

/// One change of a Raft log.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Whose log it is.
    Owner(NodeId),
    /// The newest vote.
    Vote(Vote),
    /// An entry behind the last.
    Entry(LogEntry),
    /// Entries behind this one are gone.
    Truncate(Option<LogId>),
    /// Entries up to this one are gone.
    Purge(LogId),
    /// Entries up to this one are committed.
    Committed(Option<LogId>),
}

impl Change {
    pub(super) fn encode(&self) -> Result<(u8, Bytes), codec::CodecError> {
        fn record<T: Serialize>(kind: u8, what: &T) -> Result<(u8, Bytes), codec::CodecError> {
            Ok((kind, codec::encode(what)?.into()))
        }
        match self {
            Self::Owner(id) => record(OWNER, id),
            Self::Vote(vote) => record(VOTE, vote),
            Self::Entry(entry) => record(ENTRY, entry),
            Self::Truncate(last) => record(TRUNCATE, last),
            Self::Purge(last) => record(PURGE, last),
            Self::Committed(last) => record(COMMITTED, last),
        }
    }

    pub(super) fn decode(record: &Record) -> Result<Self, String> {
        fn what<T: DeserializeOwned>(record: &Record) -> Result<T, String> {
            codec::decode(&record.payload).map_err(|error| error.to_string())
        }
        match record.kind {
            OWNER => what(record).map(Self::Owner),
            VOTE => what(record).map(Self::Vote),
            ENTRY => what(record).map(Self::Entry),
            TRUNCATE => what(record).map(Self::Truncate),
            PURGE => what(record).map(Self::Purge),
            COMMITTED => what(record).map(Self::Committed),
            unknown => Err(format!("kind {unknown} is unknown; a newer build wrote it")),
        }
    }
}
