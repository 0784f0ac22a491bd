//! A server that loses answers, breaks off and dies, and leaders that do: each receipt is there once.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mesh::pki;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use seam::{Bound, ByteStream, Lock};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::super::tests::{LOOPBACK, One, bill};
use super::*;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// What becomes of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing is taken, and the connection breaks off.
    Dropped,
    /// Nothing is taken, and the server says why; it says back what it was told.
    Refused,
    /// Half is taken, then the server fails.
    Half,
    /// All is taken, and the connection breaks off.
    AnswerLost,
    /// All is taken, and no answer ever comes.
    Silent,
}

#[derive(Default)]
struct Table {
    rows: Vec<Value>,
    inserts: usize,
    faults: VecDeque<Fault>,
    headers: HeaderMap,
}

/// A server that knows what is asked of it here.
#[derive(Clone, Default)]
struct Server {
    table: Arc<Lock<Table>>,
    silent: Arc<Notify>,
}

impl Server {
    async fn start(host: &Host) -> (Self, SocketAddr, Bound<()>) {
        Self::start_behind(host, None).await
    }

    async fn start_behind(host: &Host, tls: Option<TlsAcceptor>) -> (Self, SocketAddr, Bound<()>) {
        let server = Self::default();
        let listener = host.listen(LOOPBACK).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (host, serving) = (host.clone(), server.clone());
        let accepting = host.clone().spawn("clickhouse-fake", async move {
            while let Ok((stream, _peer)) = listener.accept().await {
                let server = serving.clone();
                let service = service_fn(move |request| server.clone().answer(request));
                let tls = tls.clone();
                drop(host.spawn("clickhouse-call", async move {
                    let stream: ByteStream = match tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => Box::new(stream),
                            Err(_refused) => return,
                        },
                        None => stream,
                    };
                    let http = hyper::server::conn::http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                }));
            }
        });
        (server, at, accepting.bound())
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (head, body) = request.into_parts();
        self.table.lock().headers = head.headers;
        let Ok(body) = body.collect().await else { return Err(std::io::Error::other("gone")) };
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        if let Some((query, rows)) =
            text.split_once('\n').filter(|(query, _rows)| query.starts_with("INSERT"))
        {
            assert_eq!(query, "INSERT INTO `default`.`receipts` FORMAT JSONEachRow");
            return self.insert(rows).await;
        }
        let answer = if text.starts_with("SELECT uniqExact(place)") { self.count(&text) } else { 0 };
        Ok(said(StatusCode::OK, format!("{answer}\n")))
    }

    async fn insert(&self, rows: &str) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let fault = {
            let mut table = self.table.lock();
            table.inserts += 1;
            let fault = table.faults.pop_front();
            let taken = match fault {
                Some(Fault::Dropped | Fault::Refused) => 0,
                Some(Fault::Half) => rows.len() / 2,
                Some(Fault::AnswerLost | Fault::Silent) | None => rows.len(),
            };
            table.rows.extend(rows.into_iter().take(taken));
            fault
        };
        match fault {
            None => Ok(said(StatusCode::OK, String::new())),
            Some(Fault::Dropped | Fault::AnswerLost) => Err(std::io::Error::other("broken")),
            Some(Fault::Refused | Fault::Half) => {
                let key = self.table.lock().headers["x-clickhouse-key"].to_str().unwrap().to_owned();
                Ok(said(StatusCode::INTERNAL_SERVER_ERROR, format!("Code: 516. key {key} is not right\n")))
            }
            Some(Fault::Silent) => {
                self.silent.notify_one();
                let never: Infallible = std::future::pending().await;
                match never {}
            }
        }
    }

    /// Places behind one and up to another, as the query says.
    fn count(&self, query: &str) -> usize {
        let number = |behind: &str| -> u64 {
            let digits = query.split(behind).nth(1).unwrap();
            digits.split(' ').next().unwrap().parse().unwrap()
        };
        let (after, upto, era) = (number("place > "), number("place <= "), number("era = "));
        let table = self.table.lock();
        let places =
            table.rows.iter().filter(|row| row["era"] == era).map(|row| row["place"].as_u64().unwrap());
        places
            .filter(|place| after < *place && *place <= upto)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    }

    /// The rows once each, by place; copies must be equal.
    fn once(&self) -> BTreeMap<u64, Value> {
        let mut once = BTreeMap::new();
        for row in &self.table.lock().rows {
            let other = once.insert(row["place"].as_u64().unwrap(), row.clone());
            assert!(other.is_none_or(|other| other == *row), "{row}");
        }
        once
    }
}

fn said(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(text.into())).unwrap()
}

async fn options(one: &One, at: SocketAddr) -> ClickHouse {
    let password_file = one.dir.path().join("password");
    seam::write_atomic(one.host.disk().as_ref(), &password_file, "canary-secret\n".into()).await.unwrap();
    ClickHouse {
        url: format!("http://{at}").parse().unwrap(),
        database: "default".to_owned(),
        table: "receipts".to_owned(),
        user: Some("writer".to_owned()),
        password_file: Some(password_file),
        authorities: None,
        keep_longer: Duration::ZERO,
    }
}

/// Steps until nothing waits; gives what failures said.
async fn all(shipper: &mut Shipper) -> Vec<String> {
    let mut failures = Vec::new();
    loop {
        match shipper.step().await {
            Ok(Step::Nothing) => return failures,
            Ok(Step::Taken { .. }) => {}
            Err(why) => failures.push(why.to_string()),
        }
    }
}

#[tokio::test]
async fn each_receipt_is_there_once_whatever_becomes_of_inserts() {
    let one = One::new().await;
    let (consensus, usage, _writing) = one.start().await;
    let (server, at, _accepting) = Server::start(&one.host).await;
    let sink = (options(&one, at).await, None);
    let (mut shipper, told) = Shipper::new(&one.host, &consensus, &usage, sink);
    let faults = [Fault::Dropped, Fault::Refused, Fault::Half, Fault::AnswerLost, Fault::Half];
    for (n, fault) in faults.into_iter().enumerate() {
        let edge = format!("edge-{n}").parse().unwrap();
        bill(consensus.clone(), edge, 5, 10).await;
        server.table.lock().faults.push_back(fault);
        let failures = all(&mut shipper).await;
        assert_eq!(failures.len(), 1, "{fault:?}: {failures:?}");
        assert!(!failures[0].contains("canary"), "{failures:?}");
        assert_eq!(failures[0].contains("key … is not right"), matches!(fault, Fault::Refused | Fault::Half));
    }
    let once = server.once();
    assert_eq!(once.len(), 250);
    let spent: u64 = once.values().map(|row| row["cost_nano"].as_u64().unwrap()).sum();
    let known = consensus.read(|state| state.usage().totals().map(|(_who, total)| total.cost.0).sum::<u64>());
    assert_eq!(spent, known);
    let calls: std::collections::BTreeSet<_> =
        once.values().map(|row| (row["edge"].to_string(), row["request"].to_string())).collect();
    assert_eq!(calls.len(), 250);
    let table = server.table.lock();
    // Of half a batch the half came twice; of a lost answer nothing did: it was looked for first.
    assert_eq!((table.rows.len(), table.inserts), (250 + 2 * 25, 5 + 4));
    assert_eq!((&table.headers["x-clickhouse-user"], told.borrow().taken), (&"writer".parse().unwrap(), 250));
}

#[tokio::test]
async fn over_tls_a_server_of_the_named_authority_gets_receipts_and_no_other_hears_a_word() {
    let one = One::new().await;
    let (consensus, usage, _writing) = one.start().await;
    bill(consensus.clone(), "edge".parse().unwrap(), 2, 10).await;
    let authority =
        |mesh: &str| pki::create_listener_authority(&one.host, &mesh.parse().unwrap(), DAY).unwrap();
    let (ours, another) = (authority("ours"), authority("another"));
    let trusted = one.dir.path().join("rows.pem");
    let pem = ours.certificate.clone();
    seam::write_atomic(one.host.disk().as_ref(), &trusted, pem.into()).await.unwrap();
    for (by, name, refused) in [
        (&another, "127.0.0.1", Some("UnknownIssuer")),
        (&ours, "127.0.0.2", Some("not valid for name")),
        (&ours, "127.0.0.1", None),
    ] {
        let tls = acceptor(&pki::issue_listener(&one.host, by, &[name.to_owned()], DAY).unwrap());
        let (server, at, _accepting) = Server::start_behind(&one.host, Some(tls)).await;
        let url = format!("https://{at}").parse().unwrap();
        let sink = ClickHouse { url, authorities: Some(trusted.clone()), ..options(&one, at).await };
        let sink = crate::node::sink(&one.host, Some(&sink)).await.unwrap().unwrap();
        let (mut shipper, _told) = Shipper::new(&one.host, &consensus, &usage, sink);
        if let Some(refused) = refused {
            let why = shipper.step().await.map(drop).unwrap_err().to_string();
            assert!(why.contains(refused) && why.contains("`authorities`"), "{why}");
            assert!(server.table.lock().headers.is_empty(), "the password was told");
        } else {
            assert_eq!(all(&mut shipper).await, [""; 0]);
            assert_eq!(server.once().len(), 20);
        }
    }
}

/// The end of TLS of a server with this certificate.
fn acceptor(issued: &pki::Issued) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

#[tokio::test]
async fn the_next_leader_goes_on_with_the_same_batch() {
    let one = One::new().await;
    let (consensus, usage, _writing) = one.start().await;
    let (server, at, _accepting) = Server::start(&one.host).await;
    let sink = (options(&one, at).await, None);
    for (n, fault) in [Fault::Silent, Fault::Dropped].into_iter().enumerate() {
        bill(consensus.clone(), format!("edge-{n}").parse().unwrap(), 3, 10).await;
        server.table.lock().faults.push_back(fault);
        let (mut first, _told) = Shipper::new(&one.host, &consensus, &usage, sink.clone());
        tokio::select! {
            biased;
            () = server.silent.notified() => {}
            stepped = first.step() => assert!(stepped.is_err() && fault == Fault::Dropped),
        }
        drop(first);
        // What comes meanwhile is no part of the batch under way.
        bill(consensus.clone(), format!("late-{n}").parse().unwrap(), 1, 10).await;
        let under_way = consensus.read(State::shipment);
        let (mut second, _told) = Shipper::new(&one.host, &consensus, &usage, sink.clone());
        assert!(matches!(second.step().await, Ok(Step::Taken { full: false })));
        assert_eq!(consensus.read(State::shipment).after, under_way.upto);
        assert_eq!(server.once().len(), 40 * n + 30);
        assert_eq!(all(&mut second).await, [""; 0]);
    }
    assert_eq!((server.once().len(), server.table.lock().rows.len()), (80, 80));
    // One that still thinks that it leads does no harm.
    let stale = Shipment { after: 0, upto: 1 << 40 };
    assert!(matches!(consensus.propose(Command::Ship(stale)).await, Ok(Reply::Refused(_))));
}

#[tokio::test]
async fn what_was_forgotten_first_is_told_and_passed_over() {
    let one = One::new().await;
    let (consensus, usage, _writing) = one.start().await;
    let (server, at, _accepting) = Server::start(&one.host).await;
    let (mut shipper, told) = Shipper::new(&one.host, &consensus, &usage, (options(&one, at).await, None));
    let forget = async || {
        let far = base::WallMs::from_millis(u64::MAX >> 1);
        let keep =
            usage_store::Keep { receipts_from: far, hours_from: base::WallMs::from_millis(0), held: None };
        while usage.order(|done| super::super::feed::Fed::Prune { keep, done }).await.unwrap() {}
    };
    bill(consensus.clone(), "early".parse().unwrap(), 2, 10).await;
    usage.reach(None).await.unwrap();
    forget().await;
    bill(consensus.clone(), "first".parse().unwrap(), 2, 10).await;
    assert_eq!(all(&mut shipper).await, [""; 0]);
    assert_eq!(
        (server.once().len(), told.borrow().lost),
        (20, 0),
        "what was gone before the first one is no loss"
    );

    bill(consensus.clone(), "lost".parse().unwrap(), 3, 10).await;
    usage.reach(None).await.unwrap();
    forget().await;
    bill(consensus.clone(), "last".parse().unwrap(), 2, 10).await;
    assert_eq!(all(&mut shipper).await, [""; 0]);
    assert_eq!(server.once().len(), 40);
    assert!(told.borrow().lost >= 3, "{:?}", told.borrow());
}
