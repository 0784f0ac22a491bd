//! A model server that does as it is told and remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seam::{Host, Lock};
use tokio::sync::watch;

use crate::ingress::{Answer, End, Flows, Outlet};

/// What the next calls get.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A whole chat completion.
    Complete,
    /// An event stream of these words, a finish, usage and the end mark.
    Words(&'static [&'static str]),
    /// These words, then silence.
    Hang(&'static [&'static str]),
    /// These words; once told to [`Server::go_on`], the connection breaks.
    Break(&'static [&'static str]),
    /// A whole chat completion, once told to [`Server::go_on`].
    Late,
    /// These events and the end.
    Events(&'static [&'static str]),
    /// Events without end, as fast as they are taken.
    Flood,
    /// Nothing at all.
    Silent,
    /// An error of this status and body.
    Fail(u16, &'static str),
}

/// The server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) url: String,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    act: Lock<Act>,
    asked: Lock<Vec<Bytes>>,
    headers: Lock<Vec<http::HeaderMap>>,
    open: watch::Sender<u32>,
    flooded: AtomicUsize,
    go_on: watch::Sender<bool>,
}

impl Server {
    pub(super) async fn start(host: &Host, act: Act) -> Self {
        let listener = host.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            act: Lock::new(act),
            asked: Lock::default(),
            headers: Lock::default(),
            open: watch::channel(0).0,
            flooded: AtomicUsize::new(0),
            go_on: watch::channel(false).0,
        });
        let (of, shared) = (host.clone(), Arc::clone(&state));
        drop(host.spawn("server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| serve(Arc::clone(&state), request));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                drop(of.spawn("served", async move { drop(connection.await) }));
            }
        }));
        Self { url, state }
    }

    pub(super) fn does(&self, act: Act) {
        *self.state.act.lock() = act;
    }

    /// Lets answers that wait go on.
    pub(super) fn go_on(&self) {
        self.state.go_on.send_replace(true);
    }

    /// Bodies it was sent.
    pub(super) fn asked(&self) -> Vec<serde_json::Value> {
        self.state.asked.lock().iter().map(|body| serde_json::from_slice(body).unwrap()).collect()
    }

    /// Bodies it was sent, as they came.
    pub(super) fn asked_bytes(&self) -> Vec<Bytes> {
        self.state.asked.lock().clone()
    }

    /// Headers it was sent.
    pub(super) fn headers(&self) -> Vec<http::HeaderMap> {
        self.state.headers.lock().clone()
    }

    /// Bytes of floods that were taken from it.
    pub(super) fn flooded(&self) -> usize {
        self.state.flooded.load(Ordering::Relaxed)
    }

    /// Waits until so many of its answers are in progress.
    pub(super) async fn open(&self, wanted: u32) {
        self.state.open.subscribe().wait_for(|open| *open == wanted).await.unwrap();
    }
}

/// Counts an answer while it is in progress.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Self {
        state.open.send_modify(|open| *open += 1);
        Self(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

async fn serve(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let open = Open::new(&state);
    let (head, body) = request.into_parts();
    state.headers.lock().push(head.headers);
    let body = body.collect().await.unwrap().to_bytes();
    state.asked.lock().push(body);
    let act = state.act.lock().clone();
    Ok(match act {
        Act::Complete if head.uri.path().ends_with("embeddings") => json(200, EMBEDDING),
        Act::Complete => json(200, COMPLETION),
        Act::Late => {
            open.0.go_on.subscribe().wait_for(|go_on| *go_on).await.unwrap();
            json(200, COMPLETION)
        }
        Act::Fail(status, body) => json(status, body),
        Act::Silent => {
            let _open = open;
            std::future::pending().await
        }
        Act::Events(given) => flow(open, |_state, outlet| async move {
            for event in given {
                outlet.send(Bytes::from_static(event.as_bytes())).await;
            }
            End::Whole
        }),
        Act::Flood => flow(open, |state, outlet| async move {
            let event: Bytes = word(&"x".repeat(16 * 1024)).into();
            loop {
                outlet.send(event.clone()).await;
                state.flooded.fetch_add(event.len(), Ordering::Relaxed);
            }
        }),
        Act::Words(words) => events(open, words, Ending::Whole),
        Act::Hang(words) => events(open, words, Ending::Hang),
        Act::Break(words) => events(open, words, Ending::Break),
    })
}

pub(super) const COMPLETION: &str = r#"{"id":"c1","object":"chat.completion","created":1,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10},"x_unknown":{"kept":true}}"#;

const EMBEDDING: &str = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"tiny","usage":{"prompt_tokens":2,"total_tokens":2}}"#;

const LAST: [&str; 3] = [
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}\n\n",
    "data: [DONE]\n\n",
];

enum Ending {
    Whole,
    Hang,
    Break,
}

fn json(status: u16, body: &'static str) -> Response<Answer> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Answer::whole(Bytes::from_static(body.as_bytes()))).unwrap()
}

fn word(word: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

fn events(open: Open, words: &'static [&'static str], ending: Ending) -> Response<Answer> {
    flow(open, move |state, outlet| async move {
        for text in words {
            outlet.send(word(text).into()).await;
        }
        match ending {
            Ending::Whole => {
                for event in LAST {
                    outlet.send(Bytes::from_static(event.as_bytes())).await;
                }
                End::Whole
            }
            Ending::Hang => std::future::pending().await,
            Ending::Break => {
                state.go_on.subscribe().wait_for(|go_on| *go_on).await.unwrap();
                End::Broken
            }
        }
    })
}

/// An event stream that `produce` makes; the answer is open as long as it is produced.
fn flow<F>(open: Open, produce: impl FnOnce(Arc<State>, Outlet) -> F) -> Response<Answer>
where
    F: Future<Output = End> + Send + 'static,
{
    let answer = Answer::flow(&Flows::default(), move |outlet| {
        let producing = produce(Arc::clone(&open.0), outlet);
        async move {
            let _open = open;
            producing.await
        }
    });
    Response::builder().header("content-type", "text/event-stream").body(answer).unwrap()
}
