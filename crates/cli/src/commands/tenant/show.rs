//! `flovyn tenant show`

use clap::Args;

use crate::client::answers::{Answer, Tenant};
use crate::exit::Failure;
use crate::remote::Session;
use crate::view::facts::Facts;
use crate::view::words::{duration, moment};

#[derive(Args)]
#[command(after_help = "\
Clients of the public protocol need the tenant's id, not its slug.

Examples:
  flovyn tenant show
  flovyn tenant show --tenant acme -o json")]
pub(crate) struct Show {}

impl Show {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let tenant: Answer<Tenant> = session.client.get(&[]).await?;
        if session.out.is_json() {
            return session.out.json(&tenant.sent);
        }
        session.out.lines(&facts(&tenant.value).lines(session.out.paint))?;
        Ok(())
    }
}

fn facts(tenant: &Tenant) -> Facts {
    let mut facts = Facts::new(&tenant.slug, &tenant.id, None);
    facts.add("name", &tenant.name);
    facts.add("created", &moment(tenant.created_ms));
    facts.add("retention", &tenant.retention_ms.map_or_else(|| "unlimited".to_owned(), duration));
    facts
}
