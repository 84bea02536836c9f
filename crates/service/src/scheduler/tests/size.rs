//! What goes into a batch.

use super::*;

fn requests(begin: &Begin<Fake>) -> usize {
    begin.jobs.len()
}

#[test]
fn a_batch_is_closed_by_its_requests_or_its_rows() {
    let mut desk = Desk::new(Elsewhere { from: None, ..elsewhere() });
    desk.arrive(vec![fake(1); FULL + 1]);
    assert_eq!(requests(&desk.begins()), FULL);
    desk.tell(Event::Written { requests: FULL, took: None });
    desk.arrive([Fake { rows: 4_995, ..fake(1) }, fake(1)]);
    assert_eq!(requests(&desk.begins()), 2, "the one left, and one of many rows");
    desk.tell(Event::Written { requests: 2, took: None });
    assert_eq!(requests(&desk.begins()), 1);
    desk.tell(Event::Written { requests: 1, took: None });
    desk.arrive([Fake { rows: 9_999, ..fake(1) }]);
    assert_eq!(requests(&desk.begins()), 1, "however large");
}

#[test]
fn every_tenant_that_waits_is_in_the_next_batch() {
    let mut desk = Desk::new(in_process());
    desk.arrive((0..1_000).map(|_| fake(1)));
    desk.arrive([fake(2), fake(3), fake(2)]);
    let begin = desk.begins();
    let tenants: Vec<u128> = begin.jobs.iter().map(|job| job.tenant.as_u128()).collect();
    assert_eq!(tenants[..5], [1, 2, 3, 1, 2]);
    assert_eq!(ids(&begin)[..5], [1, 1_001, 1_002, 2, 1_003], "each in its order");
}

#[test]
fn claims_go_last_and_those_of_a_session_for_much_work_take_turns() {
    let mut desk = Desk::new(in_process());
    let sessions = [Some(1), Some(1), Some(2), None, None];
    let claims = desk.arrive(sessions.map(|session| claim(session, 200)));
    let other = desk.arrive([fake(1)]);
    let first = desk.begins();
    assert_eq!(ids(&first), [other[0], claims[0], claims[2], claims[3], claims[4]]);
    desk.tell(Event::Written { requests: 5, took: None });
    assert_eq!(ids(&desk.begins()), [claims[1]], "it is not forgotten");
    let mut elsewhere = Desk::new(elsewhere());
    elsewhere.arrive([claim(Some(1), 200), claim(Some(1), 200)]);
    assert_eq!(requests(&elsewhere.begins()), 2);
}

#[test]
fn a_claim_whose_poller_has_gone_is_passed_on_and_not_carried_out() {
    let mut desk = Desk::new(in_process());
    desk.arrive([Fake { is_abandoned: true, ..claim(None, 1) }, fake(1)]);
    let actions = desk.turn();
    let [Action::PassOn(claim), Action::Begin(begin)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((claim.id, ids(begin)), (1, vec![2]));
    desk.tell(Event::Written { requests: 1, took: None });
    desk.arrive([Fake { is_abandoned: true, ..fake(1) }]);
    assert!(matches!(desk.turn()[..], [Action::Answer]));
    assert!(matches!(desk.turn()[..], [Action::PassOn(_)]), "there is no empty batch");
    assert_eq!(desk.waits(), None);
}

#[test]
fn without_adaptive_pace_batches_of_several_tenants_are_as_large_as_any() {
    for (adaptive_pace, size) in [(true, 8), (false, FULL)] {
        let tricks = Tricks { adaptive_pace, ..Tricks::default() };
        let mut desk = Desk::new(InProcess { tricks, ..in_process() });
        desk.arrive([fake(1), fake(2)]);
        desk.begins();
        // Batches of several tenants are so slow that they are cut down repeatedly.
        for _ in 0..64 {
            desk.tell(Event::Written { requests: FULL, took: Some(Duration::from_secs(1)) });
            assert!(matches!(desk.turn()[..], [Action::Answer]));
            desk.arrive([fake(1), fake(2)]);
            desk.begins();
        }
        desk.tell(Event::Written { requests: 2, took: None });
        desk.arrive((0..2 * FULL).map(|number| fake(1 + number as u128 % 2)));
        let begin = desk.begins();
        assert!(requests(&begin) <= size && (adaptive_pace || requests(&begin) == size));
    }
}

#[test]
fn the_backlog_has_an_end() {
    let mut desk = Desk::new(in_process());
    desk.arrive(vec![fake(1); QUEUE - 1]);
    assert!(desk.scheduler.has_room());
    desk.arrive([fake(1)]);
    assert!(!desk.scheduler.has_room());
}
