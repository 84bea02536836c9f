//! `flovyn task`

use crate::snapshot::Transcript;
use crate::world::World;

#[test]
fn from_creation_to_the_end() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["task", "list"]);
    let email = |to: &str| format!(r#"{{"to": "{to}@example.com", "subject": "Hello"}}"#);
    let id = typed.run(&["task", "create", "send-email", "--input", &email("ada")]).id();
    world.until_status("task", &id, "COMPLETED");
    world.until(&["task", "logs", &id, "-o", "json"], |lines| lines[0]["level"] == "INFO");
    typed.run(&["task", "show", &id]);
    typed.run(&["task", "attempts", &id]);
    typed.run(&["task", "logs", &id]);

    let later = typed.run(&["task", "create", "send-email", "--in", "20d", "-i", "{}"]).id();
    typed.run(&["task", "attempts", &later]);
    typed.run(&["task", "logs", &later]);
    typed.run(&["task", "cancel", &later]);
    typed.run(&["task", "cancel", &later]);

    let full = typed.run(&["task", "create", "send-email", "-i", &email("full"), "--max-retries", "1"]).id();
    world.until_status("task", &full, "FAILED");
    typed.run(&["task", "list", "--status", "failed"]);
    typed.run(&["task", "retry", &full]);
    world.until_status("task", &full, "FAILED");
    assert_eq!(world.run(&["task", "retry", &full, "-o", "json"]).json()["id"], full.as_str());
    world.until_status("task", &full, "COMPLETED");
    typed.run(&["task", "attempts", &full]);
    typed.run(&["task", "list", "--type", "send-email", "--limit", "2"]);
    typed.check("task");
}

#[test]
fn a_task_of_a_workflow_can_be_looked_at() {
    let world = World::new();
    let started = world.run(&["workflow", "start", "order", "-i", r#"{"item": "lamp", "cents": 5}"#]).id();
    let tasks = world
        .until(&["workflow", "tasks", &started, "-o", "json"], |found| found[0]["status"] == "COMPLETED");
    let id = tasks[0]["id"].as_str().unwrap();
    let shown = world.run(&["task", "show", id]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.starts_with("charge-card  COMPLETED\n"), "{}", shown.out);
    assert!(shown.out.contains(&format!("  Workflow   {started}\n")), "{}", shown.out);
}
