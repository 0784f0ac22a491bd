//! `--upstream URL`: a real OpenAI-compatible server as a provider behind central.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use base::ModelName;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use seam::Host;
use serde::Deserialize;

use crate::args::Up;
use crate::failure::{Exit, Failure};
use crate::files;

/// Until the server has listed its models.
const PATIENCE: Duration = Duration::from_secs(10);
const LARGEST: usize = 4 * 1024 * 1024;
/// What the demo's own models and its route are called.
const OWN: [&str; 4] = ["demo", "demo-small", "demo-large", "demo-embedding"];

/// The server and what it is asked for.
#[derive(Debug)]
pub(super) struct Upstream {
    url: String,
    key: Option<String>,
    models: Vec<ModelName>,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

impl Upstream {
    /// The upstream that the arguments name, if they name one. Without named models it is asked which it has.
    pub(super) async fn of(host: &Host, arguments: &Up) -> Result<Option<Self>, Failure> {
        let Some(url) = &arguments.upstream else { return Ok(None) };
        let url = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let key = arguments.upstream_key_file.as_deref().map(key).transpose()?;
        let mut models = arguments.upstream_models.clone();
        if models.is_empty() {
            let mend = "name its models with --upstream-model, or check the URL and --upstream-key-file";
            let listed = host.timeout(PATIENCE, list(host, &url, key.as_deref())).await;
            let listed = listed.unwrap_or_else(|_late| Err("it did not answer in time".into()));
            let failed = |why| Failure::failed(format!("cannot ask {url} for its models: {why}")).mend(mend);
            models = listed.map_err(failed)?;
        }
        if let Some(taken) = models.iter().find(|model| OWN.contains(&model.as_str())) {
            let what = format!("{url} has a model {taken}, which is a name of the demo's own");
            return Err(Failure::new(Exit::Invalid, what).mend("name its other models with --upstream-model"));
        }
        Ok(Some(Self { url, key, models }))
    }

    /// Its line under `providers:`.
    pub(super) fn provider(&self) -> String {
        let credential = self.key.as_ref().map(|key| format!(", credential: {key:?}")).unwrap_or_default();
        format!("  - {{name: upstream, base_url: {:?}{credential}}}\n", self.url)
    }

    /// Its lines under `models:`. At no price, so that the demo tenant's strict budget lets them through.
    pub(super) fn models(&self) -> String {
        let mut text = String::new();
        for model in &self.models {
            let _infallible = writeln!(
                text,
                "  - {{name: \"{model}\", price: {{input: 0, output: 0}}, provider: upstream}}"
            );
        }
        text
    }

    pub(super) fn names(&self) -> &[ModelName] {
        &self.models
    }
}

/// The key in a file.
fn key(path: &Path) -> Result<String, Failure> {
    let key = files::read(path)?.trim().to_owned();
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_graphic()) {
        let what = format!("{} holds no key: one line of printable characters", path.display());
        return Err(Failure::new(Exit::Invalid, what));
    }
    Ok(key)
}

type Why = Box<dyn std::error::Error + Send + Sync>;

async fn list(host: &Host, url: &str, key: Option<&str>) -> Result<Vec<ModelName>, Why> {
    let at: http::Uri = format!("{url}/v1/models").parse()?;
    if at.scheme_str() != Some("http") {
        return Err("only http:// servers can be asked".into());
    }
    let name = at.host().ok_or("the URL has no host")?;
    let stream = host.connect(name, at.port_u16().unwrap_or(80)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = host.spawn("upstream", async move { drop(connection.await) }).bound();
    let authority = at.authority().map_or(name, http::uri::Authority::as_str);
    let mut request = Request::get(at.path()).header(http::header::HOST, authority);
    if let Some(key) = key {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    if !answer.status().is_success() {
        return Err(format!("it answered {}", answer.status()).into());
    }
    let body = Limited::new(answer.into_body(), LARGEST).collect().await?.to_bytes();
    drop(connection);
    let listed: Listed = serde_json::from_slice(&body)?;
    // Names that the mesh cannot carry are left out; they can be given another by a file.
    let models: Vec<_> = listed.data.into_iter().filter_map(|model| model.id.parse().ok()).collect();
    if models.is_empty() {
        return Err("it lists none".into());
    }
    Ok(models)
}
