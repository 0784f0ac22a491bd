//! What QUIC is told: limits, timers, keys, and the codes that end streams and sessions.
//!
//! Every bound of a connection is here. A stream's window is its backpressure: a sender waits once that much is unread.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quinn::congestion::CubicConfig;
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig, TransportConfig, VarInt};
use ring::hmac;
use seam::Host;

/// The peer is not let in; the reason names the check.
pub(crate) const REFUSED: VarInt = VarInt::from_u32(1);
/// The peer broke the protocol.
pub(crate) const PROTOCOL: VarInt = VarInt::from_u32(2);
/// The node closes a session in good order.
pub(crate) const CLOSED: VarInt = VarInt::from_u32(3);
/// A stream given up: its call is cancelled.
pub(crate) const CANCELLED: VarInt = VarInt::from_u32(1);

/// A link without a packet for this long is dead. Three keep-alives.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(3);
/// The same in milliseconds, as QUIC has it.
const IDLE: VarInt = VarInt::from_u32(3_000);
/// Packets flow at least this often.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// What may be under way or unread on one stream: two data frames' worth would hide a stalled reader for longer.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Calls at once over one connection. With [`STREAM_WINDOW`] this bounds what stalled readers can pile up.
const CALL_STREAMS: u32 = 2_048;
/// Streams at once over a new connection: each that may come costs memory before anybody comes, and whoever dials may
/// be nobody.
const FIRST_STREAMS: u32 = 128;
/// A connection that carried so many may have as many at once as its purpose allows.
pub(crate) const IN_EARNEST: u32 = FIRST_STREAMS / 2;
/// Consensus has a few questions at once; snapshots go in parts.
const CONSENSUS_STREAMS: u32 = 128;
/// Sent and not yet acknowledged, over all streams of a connection: 100 ms at 2 Gbit/s.
const SEND_WINDOW: u64 = 24 * 1024 * 1024;
/// Length of our connection identifiers.
const CID_LEN: usize = 12;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Control sessions, forwarded calls, questions between central nodes.
    Calls,
    /// Raft.
    Consensus,
}

impl Purpose {
    pub(crate) const ALL: [Self; 2] = [Self::Calls, Self::Consensus];

    /// The application protocol; its number is the major version.
    #[must_use]
    pub const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Calls => b"portolan-mesh/1",
            Self::Consensus => b"portolan-raft/1",
        }
    }

    pub(crate) fn of_alpn(protocol: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.alpn() == protocol)
    }

    /// How many streams a peer may have open at once.
    pub(crate) const fn streams(self) -> u32 {
        match self {
            Self::Calls => CALL_STREAMS,
            Self::Consensus => CONSENSUS_STREAMS,
        }
    }
}

/// Limits and timers of connections for `purpose`. The acceptor learns the purpose only after the handshake, so that it
/// starts with those of calls.
pub(crate) fn transport(purpose: Purpose) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let window = u64::from(STREAM_WINDOW) * u64::from(purpose.streams());
    config
        .max_idle_timeout(Some(IDLE.into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(VarInt::from_u32(purpose.streams().min(FIRST_STREAMS)))
        .max_concurrent_uni_streams(VarInt::from_u32(1))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        // Stalled streams must not hold up the others, so that the connection's window is the sum of theirs.
        .receive_window(VarInt::from_u64(window).unwrap_or(VarInt::MAX))
        .send_window(SEND_WINDOW)
        .congestion_controller_factory(Arc::new(CubicConfig::default()))
        .initial_rtt(Duration::from_millis(100));
    Arc::new(config)
}

/// The endpoint's own settings. The reset key comes from the node's key, so that a restarted node can tell its peers at
/// once that the connections of its earlier life are gone; everything else is drawn from the host.
pub(crate) fn endpoint_config(host: &Host, node_key: &[u8]) -> EndpointConfig {
    let own = hmac::Key::new(hmac::HMAC_SHA256, node_key);
    let reset = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&own, b"portolan stateless reset").as_ref());
    let mut config = EndpointConfig::new(Arc::new(reset));
    let mut seed = [0; 32];
    host.fill_random(&mut seed);
    let drawn_from = host.clone();
    config.rng_seed(Some(seed)).cid_generator(move || Box::new(Identifiers(drawn_from.clone())));
    config
}

/// Draws connection identifiers from the host.
struct Identifiers(Host);

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        identifier(&self.0)
    }

    fn cid_len(&self) -> usize {
        CID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

pub(crate) fn identifier(host: &Host) -> ConnectionId {
    let mut bytes = [0; CID_LEN];
    host.fill_random(&mut bytes);
    ConnectionId::new(&bytes)
}

/// The host's wall clock, for address validation tokens.
#[derive(Debug)]
pub(crate) struct TokenTime(pub(crate) Host);

impl quinn::TimeSource for TokenTime {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.wall().as_millis())
    }
}
