//! Credentials change under a running node.

use std::path::Path;
use std::time::Duration;

use base::Role;
use bytes::Bytes;
use seam::{Host, Stopper, write_atomic};

use super::{DAY, LOOPBACK, Mesh, connect};
use crate::pki::Issued;
use crate::{
    AUTHORITIES, CERTIFICATE, Check, Credentials, CredentialsError, Endpoint, Expect, KEY, MeshError,
    Purpose, pki,
};

#[tokio::test]
async fn new_certificates_of_a_new_authority_serve_the_next_handshake_without_a_restart() {
    let (old, new) = (Mesh::new("demo"), Mesh::new("demo"));
    let dir = tempfile::tempdir().unwrap();
    let both = format!("{}{}", old.authority.certificate, new.authority.certificate);
    write(&old.host, dir.path(), &old.issue("central/eu/c1"), &both).await;
    let credentials = Credentials::load(&old.host, dir.path()).await.unwrap();
    let central = Endpoint::bind(&old.host, LOOPBACK, credentials.clone()).unwrap();
    let (kept, _far) = connect(&old.endpoint("edge/eu/e1"), &central, Purpose::Calls).await;
    let modern = new.endpoint("edge/eu/e2");
    let expect = Expect::role(Role::Central);
    let refused = modern.connect(central.local_addr().unwrap(), &expect, Purpose::Calls).await.unwrap_err();
    assert!(matches!(refused, MeshError::Refused { check: Check::Authority, .. }), "{refused}");

    write(&old.host, dir.path(), &new.issue("central/eu/c1"), &both).await;
    assert!(credentials.reload().await.unwrap());

    connect(&modern, &central, Purpose::Calls).await;
    assert!(kept.is_open(), "a connection outlives the certificate that opened it");
}

#[tokio::test]
async fn broken_or_foreign_files_are_refused_whole_and_the_old_ones_stay() {
    let mesh = Mesh::new("demo");
    let dir = tempfile::tempdir().unwrap();
    let trusted = mesh.authority.certificate.clone();
    write(&mesh.host, dir.path(), &mesh.issue("central/eu/c1"), &trusted).await;
    let credentials = Credentials::load(&mesh.host, dir.path()).await.unwrap();
    let central = Endpoint::bind(&mesh.host, LOOPBACK, credentials.clone()).unwrap();

    let (one, other) = (mesh.issue("central/eu/c1"), mesh.issue("central/eu/c1"));
    let mixed = Issued { certificate: one.certificate.clone(), key: other.key };
    write(&mesh.host, dir.path(), &mixed, &trusted).await;
    assert!(matches!(credentials.reload().await, Err(CredentialsError::Key(_))));
    assert!(!credentials.reload().await.unwrap(), "a broken file is reported once");

    write(&mesh.host, dir.path(), &mesh.issue("central/eu/c2"), &trusted).await;
    assert!(matches!(credentials.reload().await, Err(CredentialsError::OtherNode { .. })));

    write(&mesh.host, dir.path(), &one, "not PEM at all").await;
    assert!(matches!(credentials.reload().await, Err(CredentialsError::Pem { file: AUTHORITIES, .. })));

    connect(&mesh.endpoint("edge/eu/e1"), &central, Purpose::Calls).await;
}

#[tokio::test(start_paused = true)]
async fn files_are_taken_up_within_seconds_once_they_fit_and_rest() {
    let mesh = Mesh::new("demo");
    let (host, dir) = (&mesh.host, tempfile::tempdir().unwrap());
    let trusted = mesh.authority.certificate.clone();
    let old = mesh.issue("edge/eu/e1");
    write(host, dir.path(), &old, &trusted).await;
    let credentials = Credentials::load(host, dir.path()).await.unwrap();
    let (before, (stopper, stop)) = (credentials.expires(), Stopper::new());
    let following = credentials.clone();
    let watching = host.spawn("watch", async move { following.watch(stop).await });

    let new = pki::issue(host, &mesh.authority, &credentials.identity(), 50 * DAY).unwrap();
    let half = Issued { certificate: new.certificate.clone(), key: old.key };
    write(host, dir.path(), &half, &trusted).await;
    host.sleep(Duration::from_secs(20)).await;
    assert_eq!(credentials.expires(), before, "a key that does not fit is not taken");

    write(host, dir.path(), &new, &trusted).await;
    let taken_up = async {
        while credentials.expires() == before {
            host.sleep(Duration::from_millis(100)).await;
        }
    };
    host.timeout(Duration::from_secs(5), taken_up).await.unwrap();
    stopper.stop();
    watching.await.unwrap();
}

#[tokio::test]
async fn a_listener_certificate_names_its_addresses() {
    let host = Host::real();
    let authority = pki::create_listener_authority(&host, &"demo".parse().unwrap(), DAY).unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let issued = pki::issue_listener(&host, &authority, &names, DAY).unwrap();
    assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(!format!("{issued:?}").contains("PRIVATE"));
    let wrong = pki::issue_listener(&host, &authority, &["ümlaut".to_owned()], DAY).unwrap_err();
    assert!(wrong.to_string().contains("ümlaut"), "{wrong}");
}

async fn write(host: &Host, dir: &Path, issued: &Issued, authorities: &str) {
    for (name, text) in [(CERTIFICATE, &*issued.certificate), (KEY, &*issued.key), (AUTHORITIES, authorities)]
    {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        write_atomic(&**host.disk(), &dir.join(name), bytes).await.unwrap();
    }
}
