//! Each check refuses, and both sides say which one it was, in one line each.

use std::fmt::Debug;
use std::sync::Arc;

use base::Role;
use seam::{Host, Lock};
use tracing::field::{Field, Visit};
use tracing::span;

use super::{DAY, LOOPBACK, Mesh, ahead, connect};
use crate::{Check, Credentials, CredentialsError, Endpoint, Expect, MeshError, Purpose, pki};

#[tokio::test]
async fn a_node_of_another_authority_is_refused() {
    let (ours, theirs) = (Mesh::new("demo"), Mesh::new("demo"));
    let refused =
        by_both(&ours.endpoint("edge/eu/e1"), &theirs.endpoint("central/eu/c1"), Role::Central).await;
    assert_eq!(refused, (Check::Authority, Side::Dialler));
}

#[tokio::test]
async fn a_node_of_another_mesh_is_refused_even_under_the_same_authority() {
    let ours = Mesh::new("demo");
    let theirs = Mesh { host: Host::real(), name: "other", authority: ours.authority.clone() };
    let refused =
        by_both(&ours.endpoint("edge/eu/e1"), &theirs.endpoint("central/eu/c1"), Role::Central).await;
    assert_eq!(refused, (Check::Mesh, Side::Dialler));
}

#[tokio::test]
async fn an_expired_certificate_is_refused_by_the_clock_of_who_checks_it() {
    let mesh = Mesh::new("demo");
    let later = ahead(2 * DAY);
    let issued = pki::issue(&later, &mesh.authority, &"portolan://demo/central/eu/c1".parse().unwrap(), DAY);
    let issued = issued.unwrap();
    let early = Credentials::from_pem(&later, &issued.certificate, &issued.key, &mesh.authority.certificate);
    let central = Endpoint::bind(&later, LOOPBACK, early.unwrap()).unwrap();
    // The edge finds the certificate not yet valid; central, two days ahead, would find the edge's expired.
    let refused = by_both(&mesh.endpoint("edge/eu/e1"), &central, Role::Central).await;
    assert_eq!(refused, (Check::NotYetValid, Side::Dialler));

    let issued = pki::issue(
        &Host::real(),
        &mesh.authority,
        &"portolan://demo/central/eu/c1".parse().unwrap(),
        10 * DAY,
    );
    let issued = issued.unwrap();
    let valid = Credentials::from_pem(&later, &issued.certificate, &issued.key, &mesh.authority.certificate);
    let central = Endpoint::bind(&later, LOOPBACK, valid.unwrap()).unwrap();
    let refused = by_both(&mesh.endpoint("edge/eu/e1"), &central, Role::Central).await;
    assert_eq!(refused, (Check::Expired, Side::Acceptor));
}

#[tokio::test]
async fn a_node_does_not_start_with_an_expired_certificate() {
    let mesh = Mesh::new("demo");
    let issued = mesh.issue("edge/eu/e1");
    let late =
        Credentials::from_pem(&ahead(2 * DAY), &issued.certificate, &issued.key, &mesh.authority.certificate);
    let error = late.unwrap_err();
    assert!(
        matches!(&error, CredentialsError::Invalid(refusal) if refusal.check == Check::Expired),
        "{error}"
    );
}

#[tokio::test]
async fn another_role_than_expected_is_refused() {
    let mesh = Mesh::new("demo");
    let refused = by_both(&mesh.endpoint("edge/eu/e1"), &mesh.endpoint("edge/us/e2"), Role::Central).await;
    assert_eq!(refused, (Check::Role, Side::Dialler));
}

#[tokio::test]
async fn an_operator_is_no_node_and_an_edge_takes_no_part_in_consensus() {
    let mesh = Mesh::new("demo");
    let central = mesh.endpoint("central/eu/c1");
    let operator = mesh.endpoint("operator/eu/admin");
    assert_eq!(by_both(&operator, &central, Role::Central).await, (Check::Role, Side::Acceptor));

    let edge = mesh.endpoint("edge/eu/e1");
    let expect = Expect::role(Role::Central);
    let refused = refusal(&edge, &central, &expect, Purpose::Consensus).await;
    assert_eq!(refused, (Check::Role, Side::Acceptor));
    connect(&mesh.endpoint("central/us/c2"), &central, Purpose::Consensus).await;
}

#[tokio::test]
async fn another_region_or_node_than_expected_is_refused() {
    let mesh = Mesh::new("demo");
    let (edge, central) = (mesh.endpoint("edge/eu/e1"), mesh.endpoint("central/eu/c1"));
    let mut expect = Expect { role: Role::Central, region: "us".parse().ok(), node: "c1".parse().ok() };
    assert_eq!(refusal(&edge, &central, &expect, Purpose::Calls).await, (Check::Region, Side::Dialler));
    expect.region = "eu".parse().ok();
    expect.node = "c2".parse().ok();
    assert_eq!(refusal(&edge, &central, &expect, Purpose::Calls).await, (Check::Node, Side::Dialler));
    expect.node = "c1".parse().ok();
    let (let_in, _far) =
        tokio::join!(edge.connect(central.local_addr().unwrap(), &expect, Purpose::Calls), central.accept());
    let_in.unwrap();
}

#[derive(Debug, PartialEq)]
enum Side {
    Dialler,
    Acceptor,
}

async fn by_both(from: &Endpoint, to: &Endpoint, role: Role) -> (Check, Side) {
    refusal(from, to, &Expect::role(role), Purpose::Calls).await
}

/// Dials, finds itself refused, and checks that each side wrote one warning with the check that failed.
async fn refusal(from: &Endpoint, to: &Endpoint, expect: &Expect, purpose: Purpose) -> (Check, Side) {
    let warnings = Warnings::default();
    let listening = tracing::subscriber::set_default(warnings.clone());
    let error = from.connect(to.local_addr().unwrap(), expect, purpose).await.unwrap_err();
    let found = match error {
        MeshError::Refused { check, .. } => (check, Side::Dialler),
        MeshError::RefusedByPeer { check: Some(check), .. } => (check, Side::Acceptor),
        other => panic!("{other}"),
    };
    // The acceptor's task runs on this thread too: let it come to its end.
    while warnings.0.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(listening);
    let mut lines = warnings.0.lock().clone();
    lines.sort();
    let expected = ["a mesh peer refused this node", "refused a mesh peer"];
    assert_eq!(lines, expected.map(|line| format!("{line} check={}", found.0)));
    found
}

/// Collects warnings: their message and the check they name.
#[derive(Clone, Debug, Default)]
struct Warnings(Arc<Lock<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("mesh")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().push(format!("{} check={}", line.message, line.check));
    }

    fn new_span(&self, _attributes: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    check: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "check" => self.check = format!("{value:?}"),
            _other => {}
        }
    }
}
