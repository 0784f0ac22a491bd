//! An instance that went out is asked again by one call at a time, and comes back.

use seam::Lock;

use super::*;

/// A sick instance `a` and a healthy one `b`.
struct Pair {
    host: Host,
    sick: Fake,
    egress: Egress,
    does: Arc<Lock<Vec<Step>>>,
}

impl Pair {
    /// `a` has failed three times.
    async fn start() -> Self {
        let net = network::Memory::new();
        let does = Arc::new(Lock::new(vec![with_status("500 Oops", "", "{}")]));
        let shown = Arc::clone(&does);
        let sick = Fake::start(&net, move |_request| shown.lock().clone()).await;
        let well = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
        let egress = egress(&net.host(), &[&sick, &well]);
        let pair = Self { host: net.host(), sick, egress, does };
        while pair.serving() {
            pair.calls(1).await;
        }
        assert_eq!(pair.asked(), 3);
        pair
    }

    fn serving(&self) -> bool {
        self.egress.instances()[0].serving
    }

    fn asked(&self) -> usize {
        self.sick.requests().len()
    }

    /// So many calls at once; how many of them were answered within a moment.
    async fn calls(&self, number: usize) -> usize {
        let calls: Vec<_> = (0..number)
            .map(|_call| {
                let (host, egress) = (self.host.clone(), self.egress.clone());
                self.host.spawn("call", async move {
                    let answered = host.timeout(Duration::from_millis(50), ask(&egress, false)).await;
                    answered.is_ok_and(|exchange| exchange.is_ok())
                })
            })
            .collect();
        let mut answered = 0;
        for call in calls {
            answered += usize::from(call.await.unwrap());
        }
        answered
    }

    async fn pause(&self, seconds: u64) {
        self.host.sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn its_pause_over_one_call_finds_out_and_the_others_go_elsewhere() {
    let pair = Pair::start().await;
    assert_eq!((pair.calls(5).await, pair.asked()), (5, 3), "within its pause");
    *pair.does.lock() = vec![Step::Hang];
    pair.pause(1).await;
    assert_eq!((pair.calls(5).await, pair.asked()), (4, 4), "one of five asks it");
    assert!(!pair.serving());
}

#[tokio::test(start_paused = true)]
async fn an_answer_brings_it_back_at_once() {
    let pair = Pair::start().await;
    *pair.does.lock() = vec![ok(ANSWER)];
    pair.pause(1).await;
    assert_eq!((pair.calls(1).await, pair.asked(), pair.serving()), (1, 4, true));
    assert_eq!(pair.calls(8).await, 8);
    assert!(pair.asked() > 6, "it takes its share again: {}", pair.asked());
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_it_out_for_longer() {
    let pair = Pair::start().await;
    pair.pause(1).await;
    assert_eq!((pair.calls(1).await, pair.asked(), pair.serving()), (1, 4, false));
    pair.host.sleep(Duration::from_millis(900)).await;
    assert_eq!((pair.calls(5).await, pair.asked()), (5, 4), "its second pause is at least a second");
    pair.pause(1).await;
    assert_eq!((pair.calls(1).await, pair.asked()), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_it_finds_out_lets_the_next_find_out() {
    let pair = Pair::start().await;
    *pair.does.lock() = vec![Step::Hang];
    pair.pause(1).await;
    assert_eq!((pair.calls(1).await, pair.asked()), (0, 4), "it left after a moment");
    assert_eq!((pair.egress.instances()[0].outstanding, pair.serving()), (0, false));
    *pair.does.lock() = vec![ok(ANSWER)];
    assert_eq!((pair.calls(1).await, pair.asked(), pair.serving()), (1, 5, true));
}
