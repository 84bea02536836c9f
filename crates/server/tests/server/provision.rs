//! Configured tenants and tokens are created once, however often and by however many servers.

use flovyn_server::provision::provision;
use flovyn_server::{Server, ServerOptions};
use tempfile::tempdir;

use crate::{TOKEN, config, start, tenant};

#[tokio::test]
async fn starting_again_changes_only_what_the_file_says() {
    let folder = tempdir().unwrap();
    let server = start(config(&folder)).await;
    let before = server.api().service().store().tenant_by_slug("default").await.unwrap().unwrap();
    server.stop().await;

    let mut changed = config(&folder);
    changed.tenants[0].retention_ms = Some(86_400_000);
    let server = start(changed).await;
    let store = server.api().service().store();
    let after = store.tenant_by_slug("default").await.unwrap().unwrap();
    assert_eq!((after.id, after.retention_ms), (before.id, Some(86_400_000)));
    assert_eq!(store.worker_token_list(after.id).await.unwrap().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn two_at_once_make_one() {
    let folder = tempdir().unwrap();
    let mut bare = config(&folder);
    let tenants = std::mem::take(&mut bare.tenants);
    let server = start(bare).await;
    let service = server.api().service();
    let (one, two) = tokio::join!(provision(service, &tenants), provision(service, &tenants));
    assert_eq!((one, two), (Ok(()), Ok(())));
    let made = service.store().tenant_by_slug("default").await.unwrap().unwrap();
    assert_eq!(service.store().tenant_list(None, 10).await.unwrap().len(), 1);
    assert_eq!(service.store().worker_token_list(made.id).await.unwrap().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_made_stops_the_start() {
    let folder = tempdir().unwrap();
    let cases = [
        (vec![tenant("Not A Slug", TOKEN)], "a-z"),
        (vec![tenant("a", TOKEN), tenant("b", TOKEN)], "another tenant"),
    ];
    for (tenants, part) in cases {
        let mut config = config(&folder);
        config.tenants = tenants;
        let error = Server::start(ServerOptions::new(config)).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
