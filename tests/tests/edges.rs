//! Edges as processes: one that starts while all of central is away, and two that run with one certificate.

#![expect(clippy::unwrap_used, reason = "a helper's failure is the test's failure")]
#![expect(clippy::indexing_slicing, reason = "a missing field is the test's failure")]

use std::time::Duration;

use seam::Host;
use serde_json::{Value, json};
use tests::client::Answer;
use tests::configure::Story;
use tests::mesh::{self, Mesh};

/// What a call costs, in nano-dollars: its hold is its charge.
const CENT: u64 = 10_000_000;

#[tokio::test]
async fn edges_start_without_central_and_the_newest_of_one_name_serves() {
    let mut mesh = Mesh::start(env!("CARGO_BIN_EXE_node"));
    let [eu, us] = ["eu", "us"]
        .map(|region| mesh.facts.demo.iter().find(|demo| demo.region == region).unwrap().url.clone());
    let model = format!(
        "models: [{{name: cent, price: {{input: 0, output: 0, call: 0.01}}, context: 8192, output_cap: 64, \
         replicas: [{{name: a, region: eu, url: \"{eu}\"}}, {{name: b, region: us, url: \"{us}\"}}]}}]"
    );
    let strict = Story::new("strict").with(&model).with(
        "budgets: [{name: strict, key: strict-key, unit: usd, window: total, limit: 50, horizon_ms: 3000}]",
    );
    strict.apply(&mesh);
    let free = Story::new("free");
    free.apply(&mesh);
    let mut callers = Callers { strict, free, paid: 0 };

    callers.until_known(&mesh).await;
    starts_without_central(&mut mesh, &mut callers).await;
    two_of_one_name(&mut mesh, &mut callers).await;
}

async fn starts_without_central(mesh: &mut Mesh, callers: &mut Callers) {
    let url = mesh.plain("eu");
    for _call in 0..20 {
        assert_eq!(callers.pay(mesh, &url).await, 200);
    }
    let central: Vec<_> = mesh.facts.nodes.iter().filter(|node| node.role == "central").cloned().collect();
    central.iter().for_each(|node| mesh::kill(node.pid));
    mesh::kill(mesh.edge("eu").pid);
    mesh.restart("edge-eu");
    callers.until_served(mesh, &url).await;
    let before = callers.paid;
    let refused = loop {
        let answer = callers.ask(mesh, &url, &callers.strict).await.unwrap();
        if answer.status != 200 {
            break answer;
        }
        callers.paid += 1;
    };
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (503, "budget_unavailable"),
        "{refused:?}"
    );
    assert!(callers.paid > before, "nothing was left of what the journal proves");
    callers.until_served(mesh, &url).await;
    for node in &central {
        mesh.restart(&node.name);
    }
    callers.until_paid(mesh, &url).await;
    callers.balance(mesh).await;
}

async fn two_of_one_name(mesh: &mut Mesh, callers: &mut Callers) {
    // The older process is the one that was started again.
    let twin = mesh.twin("edge-eu");
    callers.until_paid(mesh, &twin.plain).await;
    let (code, said) = until("the older edge ends", || mesh.ended("edge-eu")).await;
    assert_eq!(code, 1, "{said}");
    let last = said.lines().rfind(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(last.contains("another process registered with this node's certificate"), "{said}");
    assert!(last.contains("portolan pki issue"), "{said}");
    callers.until_paid(mesh, &twin.plain).await;
    callers.balance(mesh).await;
}

/// Looks until there is something, for half a minute.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _look in 0..600 {
        if let Some(found) = look() {
            return found;
        }
        Host::real().sleep(Duration::from_millis(50)).await;
    }
    let found = look();
    assert!(found.is_some(), "{what}");
    found.unwrap()
}

struct Callers {
    /// Under a strict budget, and under none.
    strict: Story,
    free: Story,
    paid: u64,
}

impl Callers {
    async fn ask(&self, mesh: &Mesh, url: &str, story: &Story) -> Option<Answer> {
        let body = json!({"model": "cent", "messages": [{"role": "user", "content": "One word, please."}]});
        mesh.client().post(url, "/v1/chat/completions", &story.key(), body.to_string()).await.ok()
    }

    async fn pay(&mut self, mesh: &Mesh, url: &str) -> u16 {
        let status = self.ask(mesh, url, &self.strict).await.map_or(0, |answer| answer.status.as_u16());
        self.paid += u64::from(status == 200);
        status
    }

    /// A change reaches edges by push.
    async fn until_known(&mut self, mesh: &Mesh) {
        self.until_served(mesh, &mesh.plain("eu")).await;
        self.until_paid(mesh, &mesh.plain("eu")).await;
    }

    async fn until_served(&self, mesh: &Mesh, url: &str) {
        for _look in 0..600 {
            if self.ask(mesh, url, &self.free).await.is_some_and(|answer| answer.status == 200) {
                return;
            }
            Host::real().sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(self.ask(mesh, url, &self.free).await.map(|answer| answer.status.as_u16()), Some(200));
    }

    async fn until_paid(&mut self, mesh: &Mesh, url: &str) {
        for _look in 0..600 {
            if self.pay(mesh, url).await == 200 {
                return;
            }
            Host::real().sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(self.pay(mesh, url).await, 200);
    }

    /// Every paid call is in the books once, as a receipt or within what a killed life is charged.
    async fn balance(&self, mesh: &Mesh) {
        let mut row = Value::Null;
        for _look in 0..300 {
            let report = mesh.operate(&["ledger", "check", "--json"]).unwrap_or_default();
            let report: Value = serde_json::from_str(&report).unwrap_or_default();
            let rows = report["rows"].as_array().cloned().unwrap_or_default();
            row = rows.into_iter().find(|row| row["name"] == "strict").unwrap_or_default();
            assert_ne!(report["balanced"], false, "{report}");
            let [receipts, crash] =
                ["receipts", "crash"].map(|column| row[column].as_u64().unwrap_or_default());
            let paid = self.paid * CENT;
            if receipts <= paid && paid <= receipts + crash && receipts > 0 {
                return;
            }
            Host::real().sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(row, Value::Null, "{} calls were paid", self.paid);
    }
}
