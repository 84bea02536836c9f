//! Where batches run, and in which order they begin and are answered.

use super::*;

#[test]
fn a_lone_request_begins_at_once_in_the_loop_and_is_answered_at_once() {
    let mut desk = Desk::new(in_process());
    assert_eq!(desk.waits(), None);
    desk.arrive([fake(1)]);
    let begin = desk.begins();
    assert_eq!((begin.runs, ids(&begin)), (Runs::Here { notify: false }, vec![1]));
    desk.tell(Event::Written { requests: 1, took: None });
    assert!(matches!(desk.turn()[..], [Action::Answer]));
    assert_eq!(desk.waits(), None);
}

#[test]
fn with_much_waiting_the_next_batch_begins_before_the_last_one_is_answered() {
    let mut desk = Desk::new(in_process());
    desk.arrive([fake(1)]);
    desk.begins();
    desk.arrive(vec![fake(1); ENOUGH]);
    desk.tell(Event::Written { requests: 1, took: None });
    assert!(matches!(desk.turn()[..], [Action::Begin(_)]), "the executor answers meanwhile");
    desk.tell(Event::Written { requests: ENOUGH, took: None });
    assert!(matches!(desk.turn()[..], [Action::Answer]));
}

#[test]
fn after_a_batch_of_many_requests_are_gathered_as_long_as_more_keeps_coming() {
    let mut desk = Desk::new(in_process());
    desk.arrive(vec![fake(1); MANY]);
    desk.begins();
    desk.tell(Event::Written { requests: MANY, took: None });
    assert!(matches!(desk.turn()[..], [Action::Answer]));
    for _ in 0..MAX_GATHERING_TURNS {
        desk.arrive([fake(1)]);
        assert!(matches!(desk.turn()[..], [Action::Yield]));
    }
    assert!(matches!(desk.turn()[..], [Action::Begin(_)]), "no longer than that");
    desk.tell(Event::Written { requests: MAX_GATHERING_TURNS, took: None });
    assert!(matches!(desk.turn()[..], [Action::Answer]));
    desk.arrive([fake(1)]);
    assert!(matches!(desk.turn()[..], [Action::Yield]));
    assert!(matches!(desk.turn()[..], [Action::Begin(_)]), "nothing came");
}

#[test]
fn in_this_process_batches_beside_the_loop_are_answered_in_order() {
    let mut desk = Desk::new(in_process());
    desk.arrive(vec![fake(1); FULL + 3 * SECOND]);
    let first = desk.begins();
    assert_eq!(first.runs, Runs::Beside { order: Order::After(None), second: false });
    let second = desk.begins();
    assert_eq!(second.runs, Runs::Beside { order: Order::After(Some(first.batch)), second: true });
    desk.arrive(vec![fake(1); SECOND]);
    assert_eq!(desk.waits(), None, "two are in flight");
    desk.ends(first.batch, Ended { requests: FULL, ..Ended::default() });
    let third = desk.begins();
    assert_eq!(third.runs, Runs::Beside { order: Order::After(Some(second.batch)), second: true });
}

#[test]
fn in_this_process_the_last_batch_of_the_loop_is_answered_before_one_begins_beside_it() {
    let mut desk = Desk::new(in_process());
    desk.arrive([fake(1)]);
    desk.begins();
    desk.tell(Event::Written { requests: 1, took: None });
    desk.arrive(vec![fake(1); FULL + SECOND]);
    let actions = desk.turn();
    let [Action::Answer, Action::Begin(begin)] = &actions[..] else { panic!("{actions:?}") };
    assert!(matches!(begin.runs, Runs::Beside { .. }));
}

#[test]
fn with_a_database_elsewhere_batches_are_answered_in_any_order() {
    let mut desk = Desk::new(elsewhere());
    desk.arrive(vec![fake(1); MANY]);
    let first = desk.begins();
    assert_eq!(first.runs, Runs::Beside { order: Order::Any, second: false });
    desk.arrive(vec![fake(1); SECOND - 1]);
    assert_eq!(desk.waits(), None, "too few wait");
    desk.arrive([fake(1)]);
    assert_eq!(desk.begins().runs, Runs::Beside { order: Order::Any, second: true });
    desk.arrive(vec![fake(1); 2 * SECOND]);
    assert_eq!(desk.waits(), None, "two are in flight");
}

#[test]
fn requests_decided_in_vain_are_decided_again_with_no_batch_beside_them() {
    let mut desk = Desk::new(elsewhere());
    desk.arrive(vec![fake(1); MANY]);
    let first = desk.begins();
    desk.arrive(vec![fake(1); SECOND]);
    let mut second = desk.begins();
    let deferred: Vec<Fake> = second.jobs.drain(..1).map(|job| Fake { misses: 1, ..job }).collect();
    let again = deferred[0].id;
    desk.ends(second.batch, Ended { requeued: deferred, requests: SECOND, in_vain: 1, ..Ended::default() });
    desk.arrive(vec![fake(1); SECOND]);
    assert_eq!(desk.waits(), None, "the first is in flight");
    desk.ends(first.batch, Ended { requests: MANY, ..Ended::default() });
    assert_eq!(ids(&desk.begins())[0], again, "before all others");
}

#[test]
fn where_batches_are_written_one_after_the_other_those_of_several_tenants_do_not_overlap() {
    let mut desk = Desk::new(in_process());
    desk.arrive([fake(1), fake(2)]);
    desk.begins();
    desk.tell(Event::Written { requests: 2, took: None });
    desk.arrive((0..4 * FULL).map(|number| fake(1 + number as u128 % 2)));
    assert_eq!(desk.begins().runs, Runs::Here { notify: false });
}

#[test]
fn a_request_that_missed_its_rows_often_goes_alone_and_holds_nobody_up() {
    let mut desk = Desk::new(elsewhere());
    desk.arrive([Fake { misses: 5, ..fake(1) }, fake(1)]);
    let alone = desk.begins();
    assert_eq!((alone.runs, ids(&alone)), (Runs::Alone, vec![1]));
    let other = desk.begins();
    assert_eq!((other.runs, ids(&other)), (Runs::Here { notify: false }, vec![2]));
    desk.tell(Event::Written { requests: 1, took: None });
    desk.tell(Event::Stopping);
    desk.tell(Event::Drained);
    assert_eq!(desk.waits(), None, "for the one alone");
    desk.ends(alone.batch, Ended { requests: 1, ..Ended::default() });
    assert!(matches!(desk.next(), Action::Finish));
}

#[test]
fn a_release_that_failed_is_tried_again_after_a_while_unless_the_service_stops() {
    let release = || Fake { is_release: true, misses: 1, ..fake(1) };
    for stops in [false, true] {
        let mut desk = Desk::new(in_process());
        desk.arrive([Fake { misses: 0, ..release() }]);
        let begin = desk.begins();
        desk.ends(begin.batch, Ended { later: vec![release()], requests: 1, ..Ended::default() });
        assert_eq!(desk.waits(), Some(desk.now + RELEASE_AGAIN));
        if stops {
            desk.tell(Event::Stopping);
            desk.tell(Event::Drained);
            assert!(matches!(desk.next(), Action::Finish));
        } else {
            desk.now += RELEASE_AGAIN;
            assert!(desk.begins().jobs[0].is_release);
        }
    }
}
