//! Delivering a claim: lanes in rounds, each round one call of the delivery.
//!
//! A round holds the first event of every lane that is left, so no call holds two events of a key; a lane whose event was not
//! delivered ends there, and what stands behind it is given back with nothing counted. A delivery that keeps the order of keys
//! gets whole lanes in one call.
//!
//! A delivery may have several receivers. A lane also ends before an event whose receiver cannot be reached; the others go on.
//!
//! Nothing here touches the database: no transaction is open and no connection held while a receiver is waited for.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::availability::Receiver;
use super::lane::{Claim, Lane};
use super::lease::Leases;
use super::settle::chain_text;
use crate::delivery::{BatchLimits, DeliveryError, OutboxDelivery, Receipt, Stop, deliver_batch};
use crate::outbox::OutboxEvent;
use crate::store::clock::Clock;

/// What became of a claim's events, each named once.
#[derive(Debug)]
pub(super) struct Verdicts<M> {
    pub(super) delivered: Vec<Claim<M>>,
    pub(super) failed: Vec<(Claim<M>, DeliveryError)>,
    /// Not begun, or not reached the receiver: nothing is counted.
    pub(super) released: Vec<i64>,
    /// The receivers that answered at all, and those that could not be reached.
    pub(super) reached: BTreeSet<Receiver>,
    pub(super) unreachable: BTreeMap<Receiver, Unreachable>,
}

/// The event that found that its receiver could not be reached, and what it heard.
#[derive(Debug)]
pub(super) struct Unreachable {
    pub(super) topic: String,
    pub(super) error: String,
}

/// What a delivery of lanes keeps to.
pub(super) struct Rules<'a> {
    pub(super) concurrency: usize,
    pub(super) timeout: Duration,
    /// How long an event may wait for an unreachable receiver before that counts as a failure.
    pub(super) max_unavailable: Option<Duration>,
    /// Receivers that nothing is sent to.
    pub(super) waited_for: &'a BTreeSet<Receiver>,
    pub(super) leases: &'a Leases,
    pub(super) clock: &'a Clock,
    pub(super) stop: &'a Stop,
}

/// Delivers lanes until they are done, the relay stops, or no receiver is left that can be reached.
///
/// # Cancel safety
/// Not cancel safe: dropped half-way, some events were delivered that nobody knows of. They are delivered again.
pub(super) async fn deliver<M: OutboxEvent>(
    delivery: &dyn OutboxDelivery<M>,
    mut lanes: Vec<Lane<M>>,
    rules: &Rules<'_>,
) -> Verdicts<M> {
    let mut verdicts = Verdicts {
        delivered: Vec::new(),
        failed: Vec::new(),
        released: Vec::new(),
        reached: BTreeSet::new(),
        unreachable: BTreeMap::new(),
    };
    while !rules.stop.is_requested() {
        let round = next_round(&mut lanes, delivery, rules, &mut verdicts);
        if round.is_empty() {
            break;
        }
        let (places, events): (Vec<_>, Vec<M>) = round
            .into_iter()
            .map(|(lane, claim)| ((lane, claim.claimed_at), claim.event))
            .unzip();
        let limits = BatchLimits::new(rules.concurrency, rules.timeout).until(rules.stop.clone());
        let answers = deliver_batch(delivery, &events, limits).await;
        let mut ended = HashSet::new();
        for (((lane, claimed_at), event), answer) in places.into_iter().zip(events).zip(answers) {
            let is_delivered = answer.is_ok();
            let receiver = delivery.receiver_of(event.topic());
            let claim = Claim { event, claimed_at };
            verdicts.add(claim, receiver, answer, ended.contains(&lane), rules);
            if !is_delivered {
                ended.insert(lane);
            }
        }
        for lane in ended {
            verdicts.release(&mut lanes[lane]);
        }
    }
    for lane in &mut lanes {
        verdicts.release(lane);
    }
    verdicts
}

/// Takes the next events out of the lanes, with the number of their lane, in sequence order.
fn next_round<M: OutboxEvent>(
    lanes: &mut [Lane<M>],
    delivery: &dyn OutboxDelivery<M>,
    rules: &Rules<'_>,
    verdicts: &mut Verdicts<M>,
) -> Vec<(usize, Claim<M>)> {
    let now = rules.clock.monotonic();
    let mut round = Vec::new();
    for (number, lane) in lanes.iter_mut().enumerate() {
        let wanted = if delivery.keeps_key_order() { lane.len() } else { 1 };
        for _ in 0..wanted {
            let Some(claim) = lane.pop_front() else { break };
            let receiver = delivery.receiver_of(claim.event.topic());
            let is_away =
                rules.waited_for.contains(&receiver) || verdicts.unreachable.contains_key(&receiver);
            // If the lease is lost, someone else may be delivering it: neither it nor what follows is ours to send.
            if !is_away && rules.leases.contains(claim.sequence(), now) {
                round.push((number, claim));
            } else {
                verdicts.released.push(claim.sequence());
                verdicts.release(lane);
            }
        }
    }
    round.sort_unstable_by_key(|(_, claim)| claim.sequence());
    round
}

impl<M: OutboxEvent> Verdicts<M> {
    fn release(&mut self, lane: &mut Lane<M>) {
        self.released.extend(lane.drain(..).map(|claim| claim.sequence()));
    }

    /// `lane_has_ended`: an earlier event of the same lane and call was not delivered.
    fn add(
        &mut self,
        claim: Claim<M>,
        receiver: Receiver,
        answer: Result<Receipt, DeliveryError>,
        lane_has_ended: bool,
        rules: &Rules<'_>,
    ) {
        let error = match answer {
            Ok(_) => {
                self.reached.insert(receiver);
                self.delivered.push(claim);
                return;
            }
            // Given back, it would be claimed again at once, and so on.
            Err(error) if error.is_not_begun() && !rules.stop.is_requested() => DeliveryError::failed(
                "the delivery answered that it did not begin to send this event, although the relay does not stop",
            ),
            Err(error) => error,
        };
        if error.is_unavailable() {
            let unreachable = Unreachable {
                topic: claim.event.topic().to_owned(),
                error: chain_text(&error),
            };
            self.unreachable.insert(receiver, unreachable);
        } else if !error.is_not_begun() {
            self.reached.insert(receiver);
        }
        let counts = !error.is_not_begun()
            && !lane_has_ended
            && (!error.is_unavailable() || is_overdue(&claim, rules.max_unavailable));
        if counts {
            self.failed.push((claim, error));
        } else {
            self.released.push(claim.sequence());
        }
    }
}

/// Whether an event has waited for its receiver for too long: since it was written or, later, became due. (A failure makes it
/// due later, so this is also the time since its last failure.)
fn is_overdue<M: OutboxEvent>(claim: &Claim<M>, max_unavailable: Option<Duration>) -> bool {
    let Some(limit) = max_unavailable else {
        return false;
    };
    let created_at = claim.event.created_at();
    let due_since = claim
        .event
        .next_attempt_at()
        .map_or(created_at, |due| due.max(created_at));
    (claim.claimed_at - due_since)
        .to_std()
        .is_ok_and(|waited| waited > limit)
}
