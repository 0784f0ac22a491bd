//! How a pool is shared among those who ask: a pure function of the pool and the claims, in the budget's unit.
//!
//! Calls that wait come first, the one that lacks least before the others. The rest goes to targets: whole while all
//! targets fit in half of the pool, else half of the pool by water filling, so that grants shrink as the pool does. When
//! the pool holds less than two waiting calls per edge, nothing but waiting calls is granted. A call that cannot be
//! granted makes everybody else give back what they do not use.

use base::Amount;

/// What one holder has and asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// Credit it neither settled nor returned.
    pub(super) unspent: Amount,
    /// Credit it would like to have unspent.
    pub(super) want: Amount,
    /// What its waiting call lacks.
    pub(super) waiting: Amount,
    /// What a waiting call of it last lacked.
    pub(super) piece: Amount,
    /// Whether it asked lately; a stale ask gets nothing, since nobody may be there to use it.
    pub(super) fresh: bool,
}

/// What one holder gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Award {
    /// More credit.
    pub(super) grant: Amount,
    /// Give back what exceeds this.
    pub(super) keep: Option<Amount>,
}

/// Shares `pool`. `excess` is what grants exceed the limit by, after it was lowered.
pub(super) fn share(pool: Amount, excess: Amount, claims: &[Claim]) -> Vec<Award> {
    let mut awards = vec![Award::default(); claims.len()];
    let mut left = pool;
    let unmet = serve_waiting(&mut left, claims, &mut awards);
    if unmet.is_empty() {
        prefetch(left, claims, &mut awards);
    }
    if !unmet.is_empty() || excess > Amount::ZERO {
        recall(left, excess, &unmet, claims, &mut awards);
    }
    awards
}

/// Grants what waiting calls lack, the least first. Returns who got nothing, the one that lacks least first.
fn serve_waiting(left: &mut Amount, claims: &[Claim], awards: &mut [Award]) -> Vec<usize> {
    let mut waiting: Vec<(Amount, usize)> = claims
        .iter()
        .enumerate()
        .filter(|(_at, claim)| claim.fresh && claim.waiting > Amount::ZERO)
        .map(|(at, claim)| (claim.waiting, at))
        .collect();
    waiting.sort_unstable();
    let mut unmet = Vec::new();
    for (lack, at) in waiting {
        match (left.checked_sub(lack), awards.get_mut(at)) {
            (Some(rest), Some(award)) => {
                award.grant = lack;
                *left = rest;
            }
            (Some(_), None) | (None, _) => unmet.push(at),
        }
    }
    unmet
}

fn prefetch(left: Amount, claims: &[Claim], awards: &mut [Award]) {
    let dearest = claims.iter().filter(|claim| claim.fresh).map(|claim| claim.waiting.0).max().unwrap_or(0);
    let fresh = claims.iter().filter(|claim| claim.fresh).count() as u64;
    if left.0 < dearest.saturating_mul(fresh).saturating_mul(2) {
        return;
    }
    let asks: Vec<Amount> = claims
        .iter()
        .zip(awards.iter())
        .map(|(claim, award)| match claim.fresh {
            true => claim.want.saturating_sub(claim.unspent).saturating_sub(award.grant),
            false => Amount::ZERO,
        })
        .collect();
    let parts = fill(Amount(left.0 / 2), &asks);
    for ((award, claim), part) in awards.iter_mut().zip(claims).zip(parts) {
        // Whole calls, as far as their size is known: a fraction of one would be of no use to anybody.
        let fraction = part.0.checked_rem(claim.piece.0).unwrap_or(0);
        award.grant = award.grant.saturating_add(Amount(part.0 - fraction));
    }
}

/// Water filling: everyone gets the ask or the common level, whichever is less, and the levels sum to at most `water`.
fn fill(water: Amount, asks: &[Amount]) -> Vec<Amount> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    order.sort_by_key(|at| asks.get(*at).copied());
    let mut parts = vec![Amount::ZERO; asks.len()];
    let mut water = water.0;
    let mut thirsty = asks.len() as u64;
    for at in order {
        let (Some(ask), Some(part)) = (asks.get(at), parts.get_mut(at)) else { continue };
        *part = Amount(ask.0.min(water / thirsty.max(1)));
        water -= part.0;
        thirsty = thirsty.saturating_sub(1);
    }
    parts
}

/// Everyone but the one that lacks least keeps half of a fair share; nothing, when that is worth less than two calls.
fn recall(left: Amount, excess: Amount, unmet: &[usize], claims: &[Claim], awards: &mut [Award]) {
    let there = claims.iter().filter(|claim| claim.fresh || claim.unspent > Amount::ZERO).count() as u64;
    let unspent: u128 = claims.iter().map(|claim| u128::from(claim.unspent.0)).sum();
    let total = (unspent + u128::from(left.0)).saturating_sub(u128::from(excess.0));
    let half_share = total / u128::from(there.max(1)) / 2;
    let lack = unmet.iter().filter_map(|at| claims.get(*at)).map(|claim| claim.waiting.0).max().unwrap_or(0);
    let level = if half_share < u128::from(lack) * 2 { 0 } else { half_share };
    let level = Amount(u64::try_from(level).unwrap_or(u64::MAX));
    let spared = if excess > Amount::ZERO { None } else { unmet.first() };
    for (at, (claim, award)) in claims.iter().zip(awards).enumerate() {
        if spared != Some(&at) && claim.unspent > level {
            award.keep = Some(level);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(unspent: u64, want: u64, waiting: u64) -> Claim {
        let (unspent, want, waiting) = (Amount(unspent), Amount(want), Amount(waiting));
        Claim { unspent, want, waiting, piece: waiting, fresh: true }
    }

    fn grants(awards: &[Award]) -> Vec<u64> {
        awards.iter().map(|award| award.grant.0).collect()
    }

    #[test]
    fn targets_are_met_whole_while_half_of_the_pool_covers_them() {
        let awards = share(Amount(1_000), Amount::ZERO, &[claim(0, 300, 0), claim(50, 150, 0)]);
        assert_eq!(grants(&awards), [300, 100]);
    }

    #[test]
    fn a_short_pool_is_halved_and_the_modest_are_served_first() {
        let awards =
            share(Amount(1_000), Amount::ZERO, &[claim(0, 900, 0), claim(0, 100, 0), claim(0, 900, 0)]);
        assert_eq!(grants(&awards), [200, 100, 200]);
    }

    #[test]
    fn at_the_end_only_waiting_calls_are_granted_and_the_last_unit_is_used() {
        let awards = share(Amount(30), Amount::ZERO, &[claim(0, 90, 10), claim(0, 90, 10), claim(0, 90, 10)]);
        assert_eq!(grants(&awards), [10, 10, 10]);
    }

    #[test]
    fn a_call_that_cannot_be_granted_makes_the_others_give_back() {
        let awards = share(Amount(4), Amount::ZERO, &[claim(6, 90, 10), claim(7, 7, 0), claim(3, 90, 7)]);
        assert_eq!(grants(&awards), [0, 0, 0]);
        let keeps: Vec<_> = awards.iter().map(|award| award.keep).collect();
        assert_eq!(keeps, [Some(Amount::ZERO), Some(Amount::ZERO), None]);
    }

    #[test]
    fn a_lowered_limit_recalls_though_nobody_waits() {
        let awards = share(Amount::ZERO, Amount(50), &[claim(80, 80, 0), claim(10, 10, 0)]);
        assert_eq!(awards[0].keep, Some(Amount(10)));
        assert_eq!(awards[1].keep, None);
    }

    #[test]
    fn a_stale_ask_gets_nothing() {
        let stale = Claim { fresh: false, ..claim(0, 100, 100) };
        assert_eq!(grants(&share(Amount(1_000), Amount::ZERO, &[stale])), [0]);
    }

    proptest! {
        #[test]
        fn no_more_is_granted_than_the_pool_holds(
            pool in 0u64..2_000,
            claims in prop::collection::vec((0u64..500, 0u64..u64::MAX, 0u64..600, any::<bool>()), 0..6),
        ) {
            let claims: Vec<Claim> = claims
                .into_iter()
                .map(|(unspent, want, waiting, fresh)| Claim { fresh, ..claim(unspent, want, waiting) })
                .collect();
            let granted: u128 = share(Amount(pool), Amount::ZERO, &claims).iter().map(|a| u128::from(a.grant.0)).sum();
            prop_assert!(granted <= u128::from(pool));
        }
    }
}
