//! Every kind of damage, planted in a sound snapshot, is found by the checker under its promise; and every orphan can
//! be repaired.

use flovyn_engine::Reply;
use flovyn_engine::invariants::{self, Promised};
use flovyn_engine::request::Mend;

use crate::damage::{BROKEN_LOGS, Damage, ORPHANS, forget_alarm, forget_task_alarm, sound};
use crate::world::World;

#[track_caller]
fn assert_found(world: &World, (what, promise, damage): &Damage) {
    let mut snapshot = world.snapshot();
    damage(&mut snapshot);
    let found = invariants::check(&snapshot, world.now);
    assert!(found.iter().any(|violation| violation.promise == *promise), "{what} is not found: {found:?}");
}

#[test]
fn every_planted_orphan_is_found() {
    let world = sound();
    world.check();
    ORPHANS.iter().for_each(|damage| assert_found(&world, damage));
}

#[test]
fn every_planted_fault_in_logs_counts_attempts_and_keys_is_found() {
    let world = sound();
    BROKEN_LOGS.iter().for_each(|damage| assert_found(&world, damage));
}

#[test]
fn a_request_to_stop_whose_grace_time_nothing_ends_is_found() {
    assert_found(&sound(), &("a grace time without alarm", Promised::P6, |s| forget_alarm(s, "asked")));
}

#[test]
fn a_task_timeout_that_will_not_fire_is_found() {
    assert_found(
        &sound(),
        &("a task timeout without alarm", Promised::P6, |s| forget_task_alarm(s, "timed")),
    );
}

#[test]
fn every_planted_orphan_can_be_mended() {
    let sound = sound();
    for (what, _, damage) in ORPHANS {
        let mut snapshot = sound.snapshot();
        damage(&mut snapshot);
        let mut world = sound.with_rows(snapshot.clone());
        for found in invariants::check(&snapshot, sound.now) {
            if found.promise == Promised::P6 {
                world.unsound(Mend { subject: found.subject });
            }
        }
        let left = invariants::check(&world.snapshot(), world.now);
        // Other findings show what else the damage broke. They remain.
        let left: Vec<_> = left.iter().filter(|found| found.promise == Promised::P6).collect();
        assert!(left.is_empty(), "{what} is not mended: {left:?}");
    }
}

#[test]
fn nothing_is_mended_in_a_sound_world_but_follow_ups() {
    let mut world = sound();
    let before = world.snapshot();
    for row in &before.executions {
        let subject = invariants::Subject::Execution(row.id);
        let reply = world.must(Mend { subject });
        assert!(row.status.is_terminal() || reply == Reply::Mended(Vec::new()), "{} {reply:?}", row.kind);
    }
    for row in before.tasks.iter().filter(|row| !row.purging) {
        assert_eq!(
            world.must(Mend { subject: invariants::Subject::Task(row.id) }),
            Reply::Mended(Vec::new())
        );
    }
    for row in &before.due {
        assert_eq!(
            world.must(Mend { subject: invariants::Subject::Due(row.clone()) }),
            Reply::Mended(Vec::new())
        );
    }
    for row in &before.ready {
        assert_eq!(
            world.must(Mend { subject: invariants::Subject::Ready(row.clone()) }),
            Reply::Mended(Vec::new())
        );
    }
}

#[test]
fn rows_of_another_tenant_are_not_mended() {
    let mut world = sound();
    let before = world.snapshot();
    let stranger = crate::world::id(4_711);
    for row in &before.due {
        let mend = Mend { subject: invariants::Subject::Due(row.clone()) };
        assert_eq!(world.ask_as(stranger, mend), Ok(Reply::Mended(Vec::new())));
    }
    for row in &before.ready {
        let mend = Mend { subject: invariants::Subject::Ready(row.clone()) };
        assert_eq!(world.ask_as(stranger, mend), Ok(Reply::Mended(Vec::new())));
    }
    assert!(before == world.snapshot(), "a stranger changed something");
}
