//! Lanes: the claimed events of one ordering key, to be delivered one after the other. Pure.
//!
//! Invariant: a lane starts at its key's first unpublished event and has no gap, so what stands before an event in its lane is
//! all that must be delivered before it.

use std::collections::{HashMap, VecDeque};

use sea_orm::prelude::DateTimeUtc;

use crate::outbox::OutboxEvent;
use crate::store::claim::{Row, Unreadable};

/// A claimed event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claim<M> {
    pub(super) event: M,
    /// By the database's clock.
    pub(super) claimed_at: DateTimeUtc,
}

impl<M: OutboxEvent> Claim<M> {
    pub(super) fn sequence(&self) -> i64 {
        self.event.sequence()
    }
}

/// Events that must be delivered in this order; a keyless event is a lane of its own.
pub(super) type Lane<M> = VecDeque<Claim<M>>;

/// A claim, arranged for delivery.
#[derive(Debug)]
pub(super) struct Arranged<M> {
    pub(super) lanes: Vec<Lane<M>>,
    /// First events of their keys that cannot be read.
    pub(super) unreadable: Vec<(i64, Unreadable)>,
    /// Claimed but not to be delivered now: what stands behind a gap or behind an unreadable event.
    pub(super) surplus: Vec<i64>,
}

struct Building<M> {
    lane: Lane<M>,
    broken: bool,
}

/// Arranges claimed rows, given in sequence order.
pub(super) fn arrange<M: OutboxEvent>(rows: Vec<Row<M>>) -> Arranged<M> {
    let mut building: Vec<Building<M>> = Vec::new();
    let mut by_key: HashMap<String, usize> = HashMap::new();
    let (mut unreadable, mut surplus) = (Vec::new(), Vec::new());
    for row in rows {
        let index = match row.ordering_key {
            Some(key) => *by_key.entry(key).or_insert(building.len()),
            None => building.len(),
        };
        if index == building.len() {
            building.push(Building {
                lane: Lane::new(),
                broken: false,
            });
        }
        let Building { lane, broken } = &mut building[index];
        let is_next = i64::try_from(lane.len()).is_ok_and(|length| row.position == length + 1);
        match row.event {
            Ok(event) if is_next && !*broken => lane.push_back(Claim {
                event,
                claimed_at: row.claimed_at,
            }),
            Err(error) if is_next && !*broken && lane.is_empty() => {
                *broken = true;
                unreadable.push((row.sequence, error));
            }
            _ => {
                *broken = true;
                surplus.push(row.sequence);
            }
        }
    }
    let lanes = building
        .into_iter()
        .map(|building| building.lane)
        .filter(|lane| !lane.is_empty())
        .collect();
    Arranged {
        lanes,
        unreadable,
        surplus,
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::DbErr;
    use uuid::Uuid;

    use super::*;
    use crate::json::JsonText;
    use crate::outbox::Model;

    fn model(sequence: i64) -> Model {
        let json = || JsonText::of(&0).unwrap();
        Model {
            sequence,
            id: Uuid::from_u128(u128::try_from(sequence).unwrap()),
            topic: "t".to_owned(),
            payload: json(),
            headers: json(),
            ordering_key: None,
            idempotency_key: None,
            created_at: DateTimeUtc::UNIX_EPOCH,
            attempts: 0,
            max_attempts: None,
            last_error: None,
            next_attempt_at: None,
            lease_until: None,
            leased_by: None,
            lease_token: None,
            claims: 0,
            releases_key: false,
            published_at: None,
            dead_lettered_at: None,
        }
    }

    fn row(sequence: i64, key: Option<&str>, position: i64) -> Row<Model> {
        Row {
            sequence,
            ordering_key: key.map(str::to_owned),
            position,
            claimed_at: DateTimeUtc::UNIX_EPOCH,
            event: Ok(model(sequence)),
        }
    }

    fn broken(row: Row<Model>) -> Row<Model> {
        let source = DbErr::Custom("not JSON".to_owned());
        let unreadable = Unreadable {
            id: None,
            topic: String::new(),
            ordering_key: row.ordering_key.clone(),
            age: None,
            attempts: 0,
            max_attempts: None,
            source,
        };
        Row {
            event: Err(unreadable),
            ..row
        }
    }

    fn sequences(lanes: &[Lane<Model>]) -> Vec<Vec<i64>> {
        lanes
            .iter()
            .map(|lane| lane.iter().map(Claim::sequence).collect())
            .collect()
    }

    #[test]
    fn events_of_a_key_share_a_lane_and_keyless_ones_do_not() {
        let rows = vec![
            row(1, Some("a"), 1),
            row(2, None, 1),
            row(3, Some("b"), 1),
            row(4, Some("a"), 2),
            row(5, None, 1),
        ];
        let arranged = arrange(rows);
        assert_eq!(
            sequences(&arranged.lanes),
            [vec![1, 4], vec![2], vec![3], vec![5]]
        );
        assert!(arranged.surplus.is_empty());
    }

    #[test]
    fn a_lane_ends_before_a_gap() {
        let rows = vec![
            row(1, Some("a"), 1),
            row(3, Some("a"), 3),
            row(4, Some("a"), 4),
            row(5, Some("b"), 1),
        ];
        let arranged = arrange(rows);
        assert_eq!(sequences(&arranged.lanes), [vec![1], vec![5]]);
        assert_eq!(arranged.surplus, [3, 4]);
    }

    #[test]
    fn a_lane_without_its_head_is_given_back_whole() {
        let arranged = arrange(vec![row(2, Some("a"), 2), row(3, Some("a"), 3)]);
        assert!(arranged.lanes.is_empty());
        assert_eq!(arranged.surplus, [2, 3]);
    }

    #[test]
    fn an_unreadable_event_holds_back_what_stands_behind_it() {
        let rows = vec![
            broken(row(1, Some("a"), 1)),
            row(2, Some("a"), 2),
            row(3, Some("b"), 1),
            broken(row(4, Some("b"), 2)),
        ];
        let arranged = arrange(rows);
        assert_eq!(sequences(&arranged.lanes), [vec![3]]);
        assert_eq!(
            arranged
                .unreadable
                .iter()
                .map(|(sequence, _)| *sequence)
                .collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(arranged.surplus, [2, 4]);
    }
}
