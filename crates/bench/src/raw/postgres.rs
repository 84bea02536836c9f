//! Bare tokio-postgres: one UNNEST statement per table and kind of change, one transaction per batch, one connection.

use std::collections::HashMap;

use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::value::ColumnType;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use super::changes::{Changes, Owned, TableChanges};

pub(crate) struct RawPostgres {
    client: Client,
    statements: HashMap<String, Statement>,
    _database: flovyn_testkit::TestDatabase,
}

type Array = Box<dyn ToSql + Sync + Send>;

impl RawPostgres {
    pub(crate) async fn open() -> Result<Self, String> {
        let database = flovyn_testkit::fresh_database().await;
        // The store creates the product's schema. Then it is closed, and only the driver is used.
        let options = PostgresOptions::new(&database.url);
        drop(PostgresStore::connect(options).await.map_err(|error| error.to_string())?);
        let (client, connection) =
            tokio_postgres::connect(&database.url, NoTls).await.map_err(|error| error.to_string())?;
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("SET jit = off").await.map_err(|error| error.to_string())?;
        Ok(Self { client, statements: HashMap::new(), _database: database })
    }

    pub(crate) async fn commit(&mut self, changes: &Changes) -> Result<(), String> {
        self.write(changes).await.map_err(|error| error.to_string())
    }

    async fn write(&mut self, changes: &Changes) -> Result<(), tokio_postgres::Error> {
        let mut work: Vec<(String, Vec<Array>)> = Vec::new();
        for table in &changes.0 {
            let all: Vec<usize> = (0..table.columns.len()).collect();
            let key: Vec<usize> = (0..table.key_columns).collect();
            if !table.inserts.is_empty() {
                work.push((insert(table, &all), arrays(table, &all, &table.inserts)));
            }
            if !table.updates.is_empty() {
                let set: Vec<usize> =
                    all.iter().copied().filter(|index| !table.columns[*index].fixed).collect();
                let both: Vec<usize> = key.iter().chain(&set).copied().collect();
                work.push((update(table, &key, &set), arrays(table, &both, &table.updates)));
            }
            if !table.deletes.is_empty() {
                work.push((delete(table, &key), arrays(table, &key, &table.deletes)));
            }
        }
        for (sql, _) in &work {
            if !self.statements.contains_key(sql) {
                let statement = self.client.prepare(sql).await?;
                self.statements.insert(sql.clone(), statement);
            }
        }
        // All statements are sent before the first answer is read.
        let begin = self.client.batch_execute("BEGIN");
        let writes = futures::future::try_join_all(work.iter().map(|(sql, arrays)| {
            let parameters: Vec<&(dyn ToSql + Sync)> =
                arrays.iter().map(|array| &**array as &(dyn ToSql + Sync)).collect();
            let statement = &self.statements[sql];
            let client = &self.client;
            async move { client.execute(statement, &parameters).await }
        }));
        let commit = self.client.batch_execute("COMMIT");
        futures::try_join!(begin, writes, commit)?;
        Ok(())
    }
}

fn sql_type(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Small => "smallint",
        ColumnType::Int => "bigint",
        ColumnType::Real => "double precision",
        ColumnType::Text => "text",
        ColumnType::Bytes => "bytea",
        ColumnType::Uuid => "uuid",
    }
}

fn unnest(table: &TableChanges, columns: &[usize]) -> (String, String) {
    let names: Vec<&str> = columns.iter().map(|index| table.columns[*index].name).collect();
    let arrays: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(number, index)| format!("${}::{}[]", number + 1, sql_type(table.columns[*index].kind)))
        .collect();
    let names = names.join(",");
    (names.clone(), format!("unnest({}) AS u({names})", arrays.join(",")))
}

fn matches_key(table: &TableChanges, key: &[usize]) -> String {
    let name = |index: &usize| table.columns[*index].name;
    key.iter().map(|index| format!("t.{0}=u.{0}", name(index))).collect::<Vec<_>>().join(" AND ")
}

fn insert(table: &TableChanges, columns: &[usize]) -> String {
    let (names, unnest) = unnest(table, columns);
    format!("INSERT INTO {} ({names}) SELECT {names} FROM {unnest}", table.table)
}

fn update(table: &TableChanges, key: &[usize], set: &[usize]) -> String {
    let both: Vec<usize> = key.iter().chain(set).copied().collect();
    let (_, unnest) = unnest(table, &both);
    let assign: Vec<String> =
        set.iter().map(|index| format!("{0}=u.{0}", table.columns[*index].name)).collect();
    let key = matches_key(table, key);
    format!("UPDATE {} t SET {} FROM {unnest} WHERE {key}", table.table, assign.join(","))
}

fn delete(table: &TableChanges, key: &[usize]) -> String {
    let (_, unnest) = unnest(table, key);
    format!("DELETE FROM {} t USING {unnest} WHERE {}", table.table, matches_key(table, key))
}

fn arrays(table: &TableChanges, columns: &[usize], rows: &[Vec<Owned>]) -> Vec<Array> {
    columns
        .iter()
        .map(|index| array(table.columns[*index].kind, rows.iter().map(|row| &row[*index])))
        .collect()
}

fn array<'a>(kind: ColumnType, values: impl Iterator<Item = &'a Owned>) -> Array {
    macro_rules! collect {
        ($type:ty, $variant:ident) => {
            Box::new(
                values
                    .map(|value| match value {
                        Owned::$variant(value) => Some(value.clone()),
                        _ => None,
                    })
                    .collect::<Vec<Option<$type>>>(),
            )
        };
    }
    match kind {
        ColumnType::Small => collect!(i16, Small),
        ColumnType::Int => collect!(i64, Int),
        ColumnType::Real => collect!(f64, Real),
        ColumnType::Text => collect!(String, Text),
        ColumnType::Bytes => collect!(Vec<u8>, Bytes),
        ColumnType::Uuid => collect!(Uuid, Uuid),
    }
}

/// Bytes that the PostgreSQL server has written to its log, for all databases together. Zero if it cannot be read.
pub(crate) async fn written_bytes(url: &str) -> f64 {
    let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else { return 0.0 };
    tokio::spawn(async move { drop(connection.await) });
    let sql = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8";
    client.query_one(sql, &[]).await.map_or(0.0, |row| row.get(0))
}
