//! The part of a run in which faults strike and heal, and operators do what the schedule says.

use std::time::Duration;

use seam::Stop;

use super::Stage;
use crate::faults::Fault;
use crate::history::Struck;
use crate::schedule::{Dated, Schedule, Until};

/// What happens to a fault, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Heal,
    Turn,
    Strike,
}

impl Stage {
    /// Strikes and heals at the scheduled times, then heals everything that does not stay for ever.
    pub(super) async fn chaos(&self, schedule: &Schedule, stop: &Stop) {
        let ground = self.field.ground();
        let began = ground.now();
        for (at, act, dated) in script(schedule) {
            let due = began + Duration::from_millis(at.min(schedule.chaos));
            ground.sleep(due.since(ground.now())).await;
            match act {
                Act::Strike => self.strike(dated, stop),
                Act::Turn => self.field.turn(dated.id),
                Act::Heal => self.heal(dated.id),
            }
        }
        ground.sleep((began + Duration::from_millis(schedule.chaos)).since(ground.now())).await;
        for dated in schedule.faults.iter().filter(|dated| dated.until != Until::Never) {
            self.heal(dated.id);
        }
    }

    fn strike(&self, dated: &Dated, stop: &Stop) {
        let (id, at, what) = (dated.id, self.field.ground().now(), dated.fault.kind());
        let machines = self.field.strike(dated);
        tracing::info!(?at, ?machines, fault = what, "struck");
        for name in &machines {
            match dated.fault {
                Fault::Transfer { .. } => self.operations.start_transfer(name.clone()),
                Fault::RaiseLevel { .. } => self.operations.start_raising(name.clone(), stop.clone()),
                Fault::Replace { .. } => {
                    self.operations.start_replacing(&self.field, name.clone(), stop.clone());
                }
                _ => {}
            }
        }
        self.recorder.write(|history| history.struck.push(Struck { id, at, healed: None, what, machines }));
    }

    fn heal(&self, id: usize) {
        self.field.heal(id);
        let now = self.field.ground().now();
        self.recorder.write(|history| {
            let struck = history.struck.iter_mut();
            for struck in struck.filter(|struck| struck.id == id && struck.healed.is_none()) {
                struck.healed = Some(now);
            }
        });
    }
}

fn script(schedule: &Schedule) -> Vec<(u64, Act, &Dated)> {
    let mut script = Vec::new();
    for dated in &schedule.faults {
        script.push((dated.at, Act::Strike, dated));
        let until = match dated.until {
            Until::At(until) => {
                script.push((until, Act::Heal, dated));
                until
            }
            Until::Healed | Until::Never => schedule.chaos,
        };
        if let Fault::Flap { period_ms, .. } = dated.fault {
            let step = usize::try_from(period_ms).unwrap_or(usize::MAX).max(1);
            script.extend((dated.at..until).step_by(step).skip(1).map(|at| (at, Act::Turn, dated)));
        }
    }
    script.sort_by_key(|(at, act, dated)| (*at, *act, dated.id));
    script
}
