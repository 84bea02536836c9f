//! Valid ids and times in spellings that are not accepted.

use flovyn_server::rest::ROUTES;
use serde_json::json;

use crate::common::{Database, TENANT};
use crate::world::{World, in_a_year, text};

/// The same id in other spellings.
fn other_spellings(id: &str) -> Vec<String> {
    let simple = id.replace('-', "");
    let all = vec![id.to_uppercase(), simple, format!("%7B{id}%7D"), format!("urn:uuid:{id}")];
    // An id of digits alone does not change in capital letters.
    all.into_iter().filter(|other| other != id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_has_one_spelling_in_every_path() {
    let world = World::start(Database::Sqlite).await;
    let execution = world.start_order().await;
    let task = text(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)["id"]);
    let token = text(&world.post("/worker-tokens", &json!({ "name": "ci" })).await.ok(201)["id"]);
    let named = ROUTES.iter().filter(|(_, path)| path.contains("{name}") || path.contains("{promise}"));
    // These paths have names of kinds, queues and keys.
    let names =
        |path: &str| path.ends_with("/trigger") || path.contains("/queues/") || path.contains("/by-key/");
    let named = named.filter(|(_, path)| !names(path));
    for (method, path) in named {
        let (id, body) = match path.rsplit('/').next() {
            Some("signal") => (&execution, r#"{"name":"s"}"#),
            Some("reject") => (&execution, r#"{"error":"e"}"#),
            _ if path.contains("/task") => (&task, ""),
            _ if path.contains("/worker-tokens") => (&token, ""),
            _ => (&execution, ""),
        };
        for other in other_spellings(id) {
            let path = path.replace("{tenant}", "one").replace("{name}", &other).replace("{promise}", &other);
            let refused = world.call(&world.admin, method, &path, body).await.refused(400, "FLV0004");
            assert!(refused["error"].as_str().unwrap().contains("lower case"), "{refused}");
        }
    }
    let tenant = TENANT.to_string();
    world.call(&world.admin, "GET", &format!("/api/tenants/{tenant}"), "").await.ok(200);
    for other in other_spellings(&tenant) {
        // Text that is not an id is a slug, and no tenant has this one.
        world.call(&world.admin, "GET", &format!("/api/tenants/{other}"), "").await.refused(404, "FLV0030");
    }
    for other in other_spellings(&execution) {
        world.get(&format!("/workflow-executions?parentId={other}")).await.refused(400, "FLV0004");
    }
    world.get(&format!("/workflow-executions/{execution}")).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_rfc_3339_to_the_end_of_its_years() {
    let world = World::start(Database::Sqlite).await;
    let start =
        async |time: &str| world.post("/workflows/order/trigger", &json!({ "scheduledAt": time })).await;
    start(&in_a_year()).await.ok(201);
    for (time, why) in [
        ("2027-01-15T10:00:00+25:00", "offset beyond 23:59"),
        ("2027-01-15T10:00:00", "no offset"),
        ("2027-01-15", "no time of day"),
        ("2027-01-15T10:00:00+00:00[UTC]", "time zone"),
        ("soon", "not a time"),
    ] {
        let refused = start(time).await.refused(400, "FLV0011");
        let told = refused["error"].as_str().unwrap();
        assert!(told.contains(why) && told.contains("scheduledAt") && told.contains("RFC 3339"), "{told}");
    }
    // The time is valid, but too far away for a start.
    let far = start("9999-12-31T23:59:59Z").await.refused(400, "FLV0006");
    assert!(far["error"].as_str().unwrap().contains("at most 3653 days ahead"), "{far}");
    let until = "createdBefore=9999-12-31T23:59:59Z&createdAfter=0001-01-01T00:00:00Z";
    let found = world.get(&format!("/workflow-executions?{until}")).await.ok(200);
    assert_eq!(found["executions"].as_array().unwrap().len(), 1, "{found}");
    let forever = json!({ "name": "forever", "expiresAt": "9999-12-31T23:59:59Z" });
    world.post("/worker-tokens", &forever).await.ok(201);
    let tokens = world.get("/worker-tokens").await.ok(200);
    assert!(tokens.to_string().contains("9999-12-31T23:59:59Z"), "{tokens}");
}
