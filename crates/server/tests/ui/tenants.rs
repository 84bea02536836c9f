//! A visitor sees only its own tenants and acts only within its role, exactly as in REST.

use serde_json::json;

use crate::visitor::{PAGES, Visitor};
use crate::world::{World, on_both, text};

on_both!(another_tenant_is_not_there, a_viewer_is_offered_nothing_and_may_do_nothing, who_may_makes_tenants,);

async fn another_tenant_is_not_there(world: World) {
    let execution = world.start_order().await;
    let task = text(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)["id"]);
    let other = Visitor::with(&world, &world.token(&["two"], "admin")).await;
    for page in PAGES {
        let (foreign, absent) = (other.get(page).await, other.get(&page.replace("/t/one", "/t/zzz")).await);
        assert_eq!((foreign.status, absent.status), (404, 404), "{page}");
        assert_eq!(
            foreign.text.replace("&#39;one&#39;", "").replace("'one'", ""),
            absent.text.replace("'zzz'", "")
        );
    }
    for path in [
        format!("executions/{execution}"),
        format!("executions/{execution}/events"),
        format!("executions/{execution}/events/1"),
        format!("executions/{execution}/children"),
        format!("executions/{execution}/live"),
        format!("executions/{execution}/raw/input"),
        format!("executions/{execution}/tasks/{task}"),
        format!("tasks/{task}"),
        format!("tasks/{task}/live"),
    ] {
        for tenant in ["one", "two"] {
            let answer = other.get(&format!("/t/{tenant}/{path}")).await;
            assert_eq!(answer.status, 404, "/t/{tenant}/{path}: {}", answer.text);
        }
    }
    assert!(!other.page("/t/two/executions").await.contains(&execution));
}

async fn a_viewer_is_offered_nothing_and_may_do_nothing(world: World) {
    let execution = world.start_order().await;
    let viewer = Visitor::with(&world, &world.token(&["one"], "viewer")).await;
    let rows =
        async || format!("{:?}", world.server.server.api().service().store().snapshot().await.unwrap());
    let before = rows().await;
    let own = format!("/t/one/executions/{execution}");
    for page in PAGES.iter().map(|page| (*page).to_owned()).chain([own.clone()]) {
        let html = viewer.page(&page).await;
        assert!(!html.contains("data-action"), "{page} offers a change");
    }
    let token = viewer.form_token().await;
    let cancel = format!("{own}/cancel");
    for path in [&*cancel, "/t/one/executions", "/t/one/access/tokens", "/t/one/queues/default/pause"] {
        let answer = viewer.post(path, &[("form_token", &token), ("kind", "k"), ("name", "n")]).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text);
    }
    assert_eq!(rows().await, before);
}

async fn who_may_makes_tenants(world: World) {
    let root = Visitor::with(&world, &world.token(&["*"], "server-admin")).await;
    let page = "/t/one/access";
    let form = root.form(page, "/tenants", &[("slug", "new-team"), ("name", "New <team>")]).await;
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = root.post("/tenants", &form).await;
    assert_eq!(
        (answer.status, answer.headers["location"].to_str().unwrap()),
        (303, "/t/new-team"),
        "{}",
        answer.text
    );
    assert!(root.page("/t/new-team/access").await.contains("New &lt;team&gt;"));
    for (slug, status) in [("new-team", 409), ("No Slug", 400), ("", 400)] {
        let answer = root.fill("/tenants", &[("slug", slug)]).await;
        assert_eq!(answer.status, status, "{slug}: {}", answer.text);
        assert!(answer.text.contains("/FLV00"), "{}", answer.text);
    }
    // An administrator of one tenant sees no form for a new tenant, and cannot create one.
    let admin = Visitor::admin(&world).await;
    assert!(!admin.page(page).await.contains("/tenants"));
    assert_eq!(admin.fill("/tenants", &[("slug", "other")]).await.status, 403);
    assert_eq!(root.get("/t/other").await.status, 404);
    let nobody = Visitor::with(&world, &world.token(&["gone"], "viewer")).await;
    let page = nobody.page("/").await;
    assert!(page.contains("flovyn tenant create") && !page.contains("/tenants\""), "{page}");
    let lonely = Visitor::with(&world, &world.token(&["gone"], "server-admin")).await;
    let page = lonely.page("/").await;
    assert!(page.contains("flovyn tenant create") && page.contains("action=\"/tenants\""), "{page}");
}
