//! Upstreams behind TLS, over HTTP/2 where they agree to it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use ::mesh::pki;
use http::{Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::Tls;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A server behind TLS that agrees to one protocol.
struct Secured {
    url: String,
    authority: String,
    connections: Arc<AtomicUsize>,
}

async fn secured(host: &Host, protocol: &str, version: Version) -> Secured {
    let authority = pki::create_listener_authority(host, &node("test"), DAY).unwrap();
    let names = [IpAddr::from(Ipv4Addr::LOCALHOST).to_string()];
    let issued = pki::issue_listener(host, &authority, &names, DAY).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = host.listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (connections, spawner) = (Arc::new(AtomicUsize::new(0)), host.clone());
    let counted = Arc::clone(&connections);
    drop(host.spawn("secured", async move {
        while let Ok((stream, _peer)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            drop(spawner.spawn("secured-connection", async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| async move {
                    assert_eq!(request.version(), version);
                    assert_eq!(request.uri().path(), "/v1/chat/completions");
                    assert_eq!(request.headers()["authorization"], "Bearer sk-ours");
                    let asked = request.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(asked, BODY);
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes()))))
                });
                drop(
                    auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await,
                );
            }));
        }
    }));
    Secured { url, authority: authority.certificate, connections }
}

/// Asks a server twice; how many connections that took, or why it failed.
async fn ask_twice(server: &Secured, host: &Host, trusted: &str) -> Result<usize, Code> {
    let tls = Some(Tls::with_authorities(trusted.as_bytes()).unwrap());
    let egress = Egress::new(host, Options { tls, ..options() });
    let origin = server.url.parse().unwrap();

    let (at, model, name) = (ServeAt::Replicas, "m".parse().unwrap(), node("a"));
    egress.install(vec![Upstream {
        at,
        model,
        name,
        dialect: Dialect::Openai,
        upstream_model: "m".to_owned(),
        origin,
        keys: vec![key("sk-ours", 1)],
        terms: Terms::default(),
    }]);
    for _call in 0..2 {
        let reply = ask(&egress, false).await.map_err(|failed| failed.failure.code)?;
        assert_eq!(read(reply).await.0, ANSWER);
    }
    Ok(server.connections.load(Ordering::SeqCst))
}

#[tokio::test]
async fn calls_share_a_connection_in_whichever_protocol_is_agreed() {
    let net = network::Memory::new();
    for (protocol, version) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        let server = secured(&net.host(), protocol, version).await;
        assert_eq!(ask_twice(&server, &net.host(), &server.authority).await, Ok(1), "{protocol}");
    }
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_spoken_to() {
    let net = network::Memory::new();
    let server = secured(&net.host(), "h2", Version::HTTP_2).await;
    assert_eq!(ask_twice(&server, &net.host(), "").await, Err(Code::UpstreamUnreachable));
}
