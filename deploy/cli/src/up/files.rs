//! What `up` writes before it starts anything: the authority and every node's credentials, configuration files, the demo
//! tenant's key, and the demo catalog.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Name, Role};
use mesh::Identity;
use seam::Host;

use super::layout::{Central, Edge, Layout, REGIONS};
use super::upstream::Upstream;
use crate::failure::{Failure, Outcome};
use crate::files::{self, Readers};
use crate::pki;

/// The mesh's name.
const MESH: &str = "local";
/// Renewed at every start.
const VALIDITY: Duration = Duration::from_secs(30 * 86_400);
/// The authorities outlive what they sign.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(3650 * 86_400);

/// How a collector's address looks.
const COLLECTOR: &str = "give the root of its OTLP/HTTP endpoint, such as http://127.0.0.1:4318";

/// What was written, as far as others need it.
#[derive(Debug)]
pub(super) struct Written {
    /// The authority of the listeners' certificates.
    pub(super) ca: PathBuf,
    /// The operator's credentials.
    pub(super) operator: PathBuf,
    /// The demo tenant's key.
    pub(super) key: String,
    /// The key that the demo provider demands.
    pub(super) provider_key: String,
    /// The demo catalog.
    pub(super) catalog: String,
}

pub(super) fn write(
    host: &Host,
    layout: &Layout,
    upstream: Option<&Upstream>,
    tokenizers: Option<&Path>,
    traces: Option<&str>,
) -> Result<Written, Failure> {
    let tokenizers = tokenizers.map(std::path::absolute).transpose().map_err(Failure::failed)?;
    let tokenizers = tokenizers.unwrap_or_else(|| layout.path("tokenizers"));
    let centrals = layout.centrals.iter().map(|central| layout.data(&central.name));
    let edges = layout.edges.iter().map(|edge| layout.data(&edge.name));
    let others = ["credentials", "logs"].map(|dir| layout.path(dir));
    for dir in others.into_iter().chain(centrals).chain(edges) {
        let mend = "remove what is in its place, or choose another directory with --data";
        files::make_dir(&dir).map_err(|failure| failure.mend(mend))?;
    }
    credentials(host, layout)?;
    let key = secret(host, layout, "key", "sk-portolan-")?;
    let provider_key = secret(host, layout, "provider-key", "sk-demo-")?;
    let seal = layout.path("seal.keys");
    if !files::exists(&seal) {
        pki::seal_key(host, &seal)?;
    }
    for central in &layout.centrals {
        files::write(&layout.config(&central.name), &central_config(layout, central, traces), Readers::All)?;
    }
    for edge in &layout.edges {
        let config = edge_config(layout, edge, &tokenizers, traces);
        ::edge::config::Config::parse("--traces", &config)
            .map_err(|_error| Failure::failed("--traces is no collector's address").mend(COLLECTOR))?;
        files::write(&layout.config(&edge.name), &config, Readers::All)?;
    }
    let catalog = catalog(layout, &key, &provider_key, upstream);
    files::write(&layout.path("demo.yaml"), &catalog, Readers::Owner)?;
    let ca = pki::listeners_authority(&layout.path("pki"));
    Ok(Written { ca, operator: layout.credentials("operator"), key, provider_key, catalog })
}

fn credentials(host: &Host, layout: &Layout) -> Outcome {
    let authority = layout.path("pki");
    let mesh: Name = MESH.parse().map_err(Failure::failed)?;
    if !pki::exists(&authority) {
        pki::init(host, &authority, &mesh, AUTHORITY_VALIDITY)?;
    }
    let centrals = layout.centrals.iter().map(|node| (Role::Central, node.region, &*node.name));
    let edges = layout.edges.iter().map(|node| (Role::Edge, node.region, &*node.name));
    let [home, ..] = REGIONS;
    for (role, region, node) in centrals.chain(edges).chain([(Role::Operator, home, "operator")]) {
        let region = region.parse().map_err(Failure::failed)?;
        let identity =
            Identity { mesh: mesh.clone(), role, region, node: node.parse().map_err(Failure::failed)? };
        pki::issue(host, &authority, &identity, &layout.credentials(node), VALIDITY)?;
    }
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    pki::listener(host, &authority, &names, &layout.path("listener"), VALIDITY)
}

fn edge_config(layout: &Layout, edge: &Edge, tokenizers: &Path, traces: Option<&str>) -> String {
    let seeds: Vec<String> = layout.centrals.iter().map(|central| format!("\"{}\"", central.mesh)).collect();
    let mut text = format!(
        "data = {data:?}\ncentral = [{seeds}]\ntokenizers = {tokenizers:?}\ndrain_ms = 5000\n\n\
         [mesh]\nlisten = \"{mesh}\"\ncredentials = {credentials:?}\n\n\
         [[ingress]]\nlisten = \"{secure}\"\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n\n\
         [[ingress]]\nlisten = \"{plain}\"\n\n\
         [record]\ndirectory = {records:?}\nsuccess_per_mille = 1000\n",
        data = layout.data(&edge.name),
        seeds = seeds.join(", "),
        mesh = edge.mesh,
        credentials = layout.credentials(&edge.name),
        secure = edge.secure,
        certificate = layout.path("listener").join(pki::LISTENER),
        key = layout.path("listener").join(pki::LISTENER_KEY),
        plain = edge.plain,
        records = layout.path("records").join(&edge.name),
    );
    text.push_str(&collector(traces));
    text
}

fn collector(traces: Option<&str>) -> String {
    traces.map(|endpoint| format!("\n[traces]\nendpoint = {endpoint:?}\n")).unwrap_or_default()
}

fn central_config(layout: &Layout, central: &Central, traces: Option<&str>) -> String {
    let mut text = format!(
        "data = {data:?}\nid = {number}\nseal_keys = {seal:?}\ndrain_s = 5\n\n\
         [mesh]\nlisten = \"{mesh}\"\ncredentials = {credentials:?}\n\n\
         [admin]\nlisten = \"{admin}\"\n",
        data = layout.data(&central.name),
        number = central.number,
        seal = layout.path("seal.keys"),
        mesh = central.mesh,
        credentials = layout.credentials(&central.name),
        admin = central.admin,
    );
    text.push_str(&collector(traces));
    for member in &layout.centrals {
        let Central { number, name, region, mesh, .. } = member;
        // Writing to a string cannot fail.
        let _infallible = write!(
            text,
            "\n[[members]]\nid = {number}\nname = \"{name}\"\nregion = \"{region}\"\nmesh = \"{mesh}\"\n"
        );
    }
    text
}

fn catalog(layout: &Layout, key: &str, provider_key: &str, upstream: Option<&Upstream>) -> String {
    let url = |region: &str| {
        let demo = layout.demos.iter().find(|demo| demo.region == region);
        demo.map(|demo| format!("http://{}", demo.listen)).unwrap_or_default()
    };
    let (eu, us, provider) = (url("eu"), url("us"), url("provider"));
    let mut text = format!(
        "# The demo that `portolan up` applies at every start.\n\
         tenants:\n  - name: demo\n\
         apps:\n  - {{tenant: demo, name: playground}}\n\
         keys:\n  - {{name: demo, tenant: demo, app: playground, secret: {key}, debug: true}}\n\
         budgets:\n  - {{name: demo-day, tenant: demo, unit: usd, window: day, limit: 10}}\n\
         routes:\n  - {{name: demo, targets: [demo-small, demo-large]}}\n\
         providers:\n  - {{name: demo, base_url: \"{provider}\", credential: {provider_key}}}\n"
    );
    if let Some(upstream) = upstream {
        text.push_str(&upstream.provider());
    }
    let replicas = format!(
        "replicas: [{{name: demo-eu, region: eu, url: \"{eu}\"}}, {{name: demo-us, region: us, url: \"{us}\"}}]"
    );
    let context = crate::demo::CONTEXT;
    let _infallible = write!(
        text,
        "models:\n\
         \x20 - {{name: demo-small, price: {{input: 0.10, output: 0.40}}, context: {context}, output_cap: 1024, {replicas}}}\n\
         \x20 - {{name: demo-large, price: {{input: 2.50, output: 10}}, context: {context}, output_cap: 1024, provider: demo}}\n\
         \x20 - {{name: demo-embedding, operations: [embeddings], price: {{input: 0.02}}, {replicas}}}\n"
    );
    if let Some(upstream) = upstream {
        text.push_str(&upstream.models());
    }
    text
}

/// A secret that stays the same for a kept directory.
fn secret(host: &Host, layout: &Layout, name: &str, prefix: &str) -> Result<String, Failure> {
    let path = layout.path(name);
    if files::exists(&path) {
        return Ok(files::read(&path)?.trim().to_owned());
    }
    let secret = format!("{prefix}{}", pki::random_hex(host));
    files::write(&path, &format!("{secret}\n"), Readers::Owner)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_what_nodes_read_and_a_second_start_keeps_the_secrets() {
        let (host, home) = (Host::real(), tempfile::tempdir().unwrap());
        let layout = Layout::choose(&host, home.path(), Some(0)).await.unwrap();
        let first = write(&host, &layout, None, None, Some("http://127.0.0.1:4318")).unwrap();
        let centrals = layout.centrals.iter().map(|node| &node.name);
        for name in centrals.chain(layout.edges.iter().map(|node| &node.name)) {
            let text = files::read(&layout.config(name)).unwrap();
            assert!(text.contains("[traces]\nendpoint = \"http://127.0.0.1:4318\""), "{name}: {text}");
        }
        let second = write(&host, &layout, None, None, None).unwrap();
        assert_eq!((first.key, first.provider_key), (second.key, second.provider_key));
        for central in &layout.centrals {
            let text = files::read(&layout.config(&central.name)).unwrap();
            let config = ::central::config::Config::parse("central.toml", &text).unwrap();
            assert_eq!((config.members.len(), config.admin), (3, central.admin));
        }
        for edge in &layout.edges {
            let text = files::read(&layout.config(&edge.name)).unwrap();
            let config = ::edge::config::Config::parse("edge.toml", &text).unwrap();
            assert_eq!(config.mesh.listen, edge.mesh);
            let credentials = mesh::Credentials::load(&host, &config.mesh.credentials).await.unwrap();
            assert_eq!(credentials.identity().node.as_str(), edge.name);
        }
    }
}
