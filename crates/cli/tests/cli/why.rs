//! Why an execution or task does not run, and what to do about it.

use crate::snapshot::Transcript;
use crate::world::World;

#[test]
fn what_waits_says_for_what_and_what_to_do() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    let mut waits = |kind: &str| {
        let id = world.run(&["workflow", "start", kind]).id();
        world.until_status("workflow", &id, "WAITING");
        typed.run(&["workflow", "show", &id, "--no-timeline"]);
        id
    };
    let lonely = waits("lonely");
    waits("monthly");
    waits("parent");
    let task = world.run(&["workflow", "tasks", &lonely, "-o", "json"]).json()[0]["id"].clone();
    typed.run(&["task", "show", task.as_str().unwrap()]);

    let unknown = world.run(&["workflow", "start", "unknown"]).id();
    typed.run(&["workflow", "show", &unknown, "--no-timeline"]);
    world.run(&["queue", "pause", "slow"]);
    let paused = world.run(&["task", "create", "paint", "--queue", "slow", "-i", r#""a hill""#]).id();
    typed.run(&["task", "show", &paused]);

    let input = r#"{"item": "air", "cents": 0}"#;
    let failed = world.run(&["workflow", "start", "order", "-i", input]).id();
    world.until_status("workflow", &failed, "FAILED");
    typed.run(&["workflow", "show", &failed, "--no-timeline"]);
    let input = r#"{"to": "full@example.com", "subject": "Hello"}"#;
    let failed = world.run(&["task", "create", "send-email", "-i", input, "--max-retries", "1"]).id();
    world.until_status("task", &failed, "FAILED");
    typed.run(&["task", "show", &failed]);
    typed.check("why");
}
