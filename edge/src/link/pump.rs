//! Runs one session over one mesh stream. Reading and writing go on side by side, so that neither end can block the
//! other by not reading.

use std::time::Duration;

use mesh::{Connection, MeshError, Receiver, Sender};
use seam::Host;
use wire::control::{Opening, ToCentral, ToEdge};
use wire::frame::Kind;

use super::Ended;
use super::session::{Session, Step};

/// Central has this long to welcome the edge, elections included; then another node is tried.
const WELCOME: Duration = Duration::from_secs(3);
/// Central speaks four times a second; after this silence the session is given up, so that another stands within a second.
const SILENCE: Duration = Duration::from_millis(800);
/// Messages are gathered at least this long, so that a burst of calls makes few reports.
const GATHER: Duration = Duration::from_millis(5);
const REPORT_EACH: Duration = Duration::from_millis(250);
const LAST_WORDS_HEARD: Duration = Duration::from_secs(1);

pub(super) async fn run(host: &Host, session: &Session, connection: &Connection) -> Ended {
    let opened = host.timeout(WELCOME, connection.open(Opening::Control)).await;
    let (mut sender, mut receiver) = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Ended::Lost(error.to_string()),
        Err(seam::Late) => return Ended::Lost("central opens no stream".to_owned()),
    };
    tokio::select! {
        biased;
        ended = read(host, session, &mut receiver) => ended,
        written = write(host, session, &mut sender) => match written {
            Ok(()) => Ended::Left,
            Err(error) => Ended::Lost(error.to_string()),
        },
    }
}

async fn read(host: &Host, session: &Session, receiver: &mut Receiver) -> Ended {
    loop {
        let patience = if session.is_welcomed() { SILENCE } else { WELCOME };
        let frame = match host.timeout(patience, receiver.recv()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) if session.has_left() => return Ended::Left,
            Ok(Ok(None)) => return Ended::Lost("central ended the session".to_owned()),
            Ok(Err(error)) => return Ended::Lost(error.to_string()),
            Err(seam::Late) => return Ended::Lost("central is silent".to_owned()),
        };
        if frame.kind != Kind::TO_EDGE {
            continue;
        }
        let step = frame.decode::<ToEdge>().map_err(|error| error.to_string());
        match step.and_then(|message| session.incoming(message)) {
            Ok(Step::On) => {}
            Ok(Step::Superseded) => return Ended::Superseded,
            Err(why) => return Ended::Lost(why),
        }
    }
}

async fn write(host: &Host, session: &Session, sender: &mut Sender) -> Result<(), MeshError> {
    sender.send(Kind::TO_CENTRAL, &ToCentral::Hello(session.hello())).await?;
    loop {
        if session.is_welcomed() {
            for message in session.outgoing() {
                sender.send(Kind::TO_CENTRAL, &message).await?;
            }
            if let Some(missing) = session.missing_tokenizers() {
                sender.send(Kind::MISSING_TOKENIZERS, &*missing).await?;
            }
        }
        if session.has_left() {
            sender.finish()?;
            // Central reads to the end or is gone; either way nothing more can be done.
            let _heard = host.timeout(LAST_WORDS_HEARD, sender.stopped()).await;
            return Ok(());
        }
        host.sleep(GATHER).await;
        let _woken = host.timeout(REPORT_EACH, session.news()).await;
    }
}
