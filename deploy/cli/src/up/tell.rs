//! What `up` says: the mesh's facts for programs (`mesh.json`), and what to run next for people.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::children::Children;
use super::files::Written;
use super::layout::Layout;
use super::upstream::Upstream;
use crate::failure::{Failure, Outcome};
use crate::files::{self, Readers};
use crate::out;

/// Where programs read the mesh's facts.
pub(crate) const FACTS: &str = "mesh.json";

pub(super) fn facts(layout: &Layout, written: &Written, children: &Children) -> Outcome {
    let admin: Vec<String> = layout.centrals.iter().map(|central| central.admin.to_string()).collect();
    let facts = json!({
        "ca": written.ca,
        "key": written.key,
        "operator": written.operator,
        "admin": admin,
        "nodes": nodes(layout, children),
        "demo": layout.demos.iter().map(|demo| json!({
            "name": demo.name,
            "region": demo.region,
            "pid": children.pid(&demo.name),
            "url": format!("http://{}", demo.listen),
        })).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&facts).map_err(Failure::failed)?;
    // It holds the demo key.
    files::write(&layout.path(FACTS), &format!("{text}\n"), Readers::Owner)
}

fn nodes(layout: &Layout, children: &Children) -> Vec<Value> {
    let centrals = layout.centrals.iter().map(|node| {
        json!({
            "name": node.name,
            "role": "central",
            "region": node.region,
            "pid": children.pid(&node.name),
            "log": layout.log(&node.name),
            "config": layout.config(&node.name),
        })
    });
    let edges = layout.edges.iter().map(|node| {
        json!({
            "name": node.name,
            "role": "edge",
            "region": node.region,
            "pid": children.pid(&node.name),
            "url": format!("https://{}", node.secure),
            "plain": format!("http://{}", node.plain),
            "log": layout.log(&node.name),
            "config": layout.config(&node.name),
        })
    });
    centrals.chain(edges).collect()
}

pub(super) fn next_steps(
    layout: &Layout,
    written: &Written,
    children: &Children,
    upstream: Option<&Upstream>,
    took: Duration,
) {
    let mut table = out::Table::new(&["edge", "HTTPS (1.1, 2, 3)", "HTTP", "models in its region"]);
    for edge in &layout.edges {
        let own = layout.demos.iter().any(|demo| demo.region == edge.region);
        table.row(vec![
            edge.name.clone(),
            format!("https://{}", edge.secure),
            format!("http://{}", edge.plain),
            if own { "demo-small, demo-embedding" } else { "none: goes to its peers" }.to_owned(),
        ]);
    }
    out::line(format_args!(
        "A mesh of {} central nodes and {} regions serves, after {:.1} s.\n\n{}",
        layout.centrals.len(),
        layout.edges.len(),
        took.as_secs_f64(),
        table.text(2)
    ));
    let plain = layout.edges.iter().map(|edge| edge.plain).next_back();
    let (Some(far), Some(near)) = (plain, layout.edges.first()) else { return };
    let (ca, key) = (pasted(&written.ca), &written.key);
    out::line("Ask it; x-portolan-debug says which node answered, and how:\n");
    let body =
        "{\"model\": \"demo-small\", \"messages\": [{\"role\": \"user\", \"content\": \"Where are you?\"}]}";
    out::line(format_args!(
        "  curl -i http://{far}/v1/chat/completions -H 'authorization: Bearer {key}' \\\n    \
         -H 'content-type: application/json' -H 'x-portolan-debug: true' -d '{body}'\n"
    ));
    out::line(format_args!(
        "  curl -N --http2 --cacert {ca} https://{}/v1/chat/completions -H 'authorization: Bearer {key}' \\\n    \
         -H 'content-type: application/json' -d '{}'\n",
        near.secure,
        body.replace("demo-small\"", "demo-large\", \"stream\": true")
    ));
    out::line(format_args!(
        "  OPENAI_BASE_URL=http://{far}/v1 OPENAI_API_KEY={key} python3 -c 'from openai import OpenAI; \\\n    \
         print(OpenAI().chat.completions.create(model=\"demo\", messages=[{{\"role\": \"user\", \"content\": \"Hello\"}}]))'\n"
    ));
    if let Some(upstream) = upstream {
        let names: Vec<_> = upstream.names().iter().map(ToString::to_string).collect();
        out::line(format_args!("Models of --upstream, through central: {}\n", names.join(", ")));
    }
    let (portolan, mesh) = (pasted(children.executable()), pasted(layout.home()));
    out::line(format_args!(
        "Look at it:\n\n  {portolan} status --mesh {mesh}\n  {portolan} get --mesh {mesh}\n  \
         {portolan} ledger check --mesh {mesh}\n"
    ));
    let home = layout.home().display();
    out::line(format_args!("Logs and call records are in {home}. Ctrl-C stops the mesh."));
}

/// A path as a shell reads it.
fn pasted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_when_a_shell_would_take_it_apart() {
        assert_eq!(pasted(Path::new("/opt/portolan-1.0/bin")), "/opt/portolan-1.0/bin");
        assert_eq!(pasted(Path::new("/tmp/my mesh's")), r"'/tmp/my mesh'\''s'");
    }
}
