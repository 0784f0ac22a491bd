//! One request on a connection of its own, its answer read whole: for what is no model, such as a database that takes rows.

use std::future::poll_fn;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{Request, Response};
use http_body_util::Full;
use seam::Host;

use crate::connection::Connection;
use crate::{Origin, Tls};

/// Why there is no answer. Only what could not be connected to has surely not heard the request.
#[derive(Debug, thiserror::Error)]
pub enum Unfetched {
    /// Nobody took the connection.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// The server took the connection, and there is no TLS with it: it speaks none, or its certificate is not trusted.
    #[error("no TLS with it: {0}")]
    Insecure(#[source] io::Error),
    /// The connection broke off, or what came was no HTTP.
    #[error("the connection broke off before the answer was whole")]
    Broken,
    /// The answer is longer than asked for.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    /// The path is none.
    #[error("{0:?} cannot be asked for")]
    Path(String),
}

/// Sends `request`, whose target is a path below `origin`, and reads the answer, at most `longest` bytes. Limits of time are the
/// caller's: dropped, it closes the connection.
///
/// # Errors
/// [`Unfetched`].
pub async fn fetch(
    host: &Host,
    tls: Option<&Tls>,
    origin: &Origin,
    request: Request<Bytes>,
    longest: usize,
) -> Result<Response<Bytes>, Unfetched> {
    let stream = host.connect(origin.host(), origin.port()).await.map_err(Unfetched::Connect)?;
    let (stream, h2) = match (origin.is_tls(), tls) {
        (false, _) => (stream, false),
        (true, Some(tls)) => tls.secure(stream, origin.host()).await.map_err(Unfetched::Insecure)?,
        (true, None) => return Err(Unfetched::Insecure(io::Error::other("TLS is not set up"))),
    };
    let opened = Connection::open(host, stream, h2).await;
    let mut connection = opened.map_err(|_fault| Unfetched::Broken)?;
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = origin.target(path, h2).ok_or_else(|| Unfetched::Path(path.to_owned()))?;
    if !h2 {
        head.headers.insert(HOST, origin.host_header().clone());
    }
    let sent = connection.send(Request::from_parts(head, Full::new(body))).await;
    let (head, mut body) = sent.map_err(|_unanswered| Unfetched::Broken)?.into_parts();
    let mut whole = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| connection.poll_frame(&mut body, cx)).await {
        let Ok(data) = frame.map_err(|_error| Unfetched::Broken)?.into_data() else { continue };
        if data.len() > longest.saturating_sub(whole.len()) {
            return Err(Unfetched::TooLong(longest));
        }
        whole.extend_from_slice(&data);
    }
    Ok(Response::from_parts(head, whole.freeze()))
}
