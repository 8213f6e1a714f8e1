//! SQLite: the nine tables as SQL has them, prepared statements, a connection for each session; settings as in
//! `peers/sqlite.rs`. Money is an INTEGER of cents.

mod transactions;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ToSql, params};

use self::transactions::Terminal;
use super::contestant::{Contestant, ContestantKind, Rows, Session};
use super::population::Take;
use super::records::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Record, Stock, Table, Warehouse,
};
use crate::peers::sqlite::connect;
use crate::store::{Result, Setup};

pub(crate) const SQLITE: ContestantKind = ContestantKind {
    name: "sqlite",
    settings: "SQLite (bundled): SQL, WITHOUT ROWID; WAL, synchronous OFF for none and os, FULL for sync",
    has_cache: true,
    only_files: false,
    open,
};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS item (i_id INTEGER PRIMARY KEY, i_im_id INTEGER NOT NULL, i_name TEXT NOT NULL,
  i_price INTEGER NOT NULL, i_data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS warehouse (w_id INTEGER PRIMARY KEY, w_name TEXT NOT NULL, w_street_1 TEXT NOT NULL,
  w_street_2 TEXT NOT NULL, w_city TEXT NOT NULL, w_state TEXT NOT NULL, w_zip TEXT NOT NULL, w_tax INTEGER NOT NULL,
  w_ytd INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS district (d_w_id INTEGER, d_id INTEGER, d_name TEXT NOT NULL, d_street_1 TEXT NOT NULL,
  d_street_2 TEXT NOT NULL, d_city TEXT NOT NULL, d_state TEXT NOT NULL, d_zip TEXT NOT NULL, d_tax INTEGER NOT NULL,
  d_ytd INTEGER NOT NULL, d_next_o_id INTEGER NOT NULL, PRIMARY KEY (d_w_id, d_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS stock (s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER NOT NULL, s_dist_01 TEXT NOT NULL,
  s_dist_02 TEXT NOT NULL, s_dist_03 TEXT NOT NULL, s_dist_04 TEXT NOT NULL, s_dist_05 TEXT NOT NULL,
  s_dist_06 TEXT NOT NULL, s_dist_07 TEXT NOT NULL, s_dist_08 TEXT NOT NULL, s_dist_09 TEXT NOT NULL,
  s_dist_10 TEXT NOT NULL, s_ytd INTEGER NOT NULL, s_order_cnt INTEGER NOT NULL, s_remote_cnt INTEGER NOT NULL,
  s_data TEXT NOT NULL, PRIMARY KEY (s_w_id, s_i_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS customer (c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, c_first TEXT NOT NULL,
  c_middle TEXT NOT NULL, c_last TEXT NOT NULL, c_street_1 TEXT NOT NULL, c_street_2 TEXT NOT NULL,
  c_city TEXT NOT NULL, c_state TEXT NOT NULL, c_zip TEXT NOT NULL, c_phone TEXT NOT NULL, c_since INTEGER NOT NULL,
  c_credit TEXT NOT NULL, c_credit_lim INTEGER NOT NULL, c_discount INTEGER NOT NULL, c_balance INTEGER NOT NULL,
  c_ytd_payment INTEGER NOT NULL, c_payment_cnt INTEGER NOT NULL, c_delivery_cnt INTEGER NOT NULL, c_data TEXT NOT NULL,
  PRIMARY KEY (c_w_id, c_d_id, c_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (h_c_id INTEGER NOT NULL, h_c_d_id INTEGER NOT NULL, h_c_w_id INTEGER NOT NULL,
  h_d_id INTEGER NOT NULL, h_w_id INTEGER NOT NULL, h_date INTEGER NOT NULL, h_amount INTEGER NOT NULL,
  h_data TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER NOT NULL,
  o_entry_d INTEGER NOT NULL, o_carrier_id INTEGER, o_ol_cnt INTEGER NOT NULL, o_all_local INTEGER NOT NULL,
  PRIMARY KEY (o_w_id, o_d_id, o_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS new_order (no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER,
  PRIMARY KEY (no_w_id, no_d_id, no_o_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS order_line (ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER,
  ol_i_id INTEGER NOT NULL, ol_supply_w_id INTEGER NOT NULL, ol_delivery_d INTEGER, ol_quantity INTEGER NOT NULL,
  ol_amount INTEGER NOT NULL, ol_dist_info TEXT NOT NULL,
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)) WITHOUT ROWID;
";

const INDEXES: &str = "
CREATE INDEX by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
";

struct Sqlite {
    path: PathBuf,
    setup: Setup,
}

fn open(dir: &Path, setup: Setup) -> Result<Box<dyn Contestant>> {
    let store = Sqlite { path: dir.join("sqlite"), setup };
    store.connect()?.execute_batch(SCHEMA)?;
    Ok(Box::new(store))
}

impl Sqlite {
    fn connect(&self) -> Result<Connection> {
        let connection = connect(&self.path, self.setup)?;
        connection.busy_timeout(std::time::Duration::from_secs(60))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}

/// `INSERT` of a whole row.
fn insert(table: Table) -> &'static str {
    match table {
        Table::Item => "INSERT INTO item VALUES (?,?,?,?,?)",
        Table::Warehouse => "INSERT INTO warehouse VALUES (?,?,?,?,?,?,?,?,?)",
        Table::District => "INSERT INTO district VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        Table::Stock => "INSERT INTO stock VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        Table::Customer => "INSERT INTO customer VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        Table::History => "INSERT INTO history VALUES (?,?,?,?,?,?,?,?)",
        Table::Order => "INSERT INTO orders VALUES (?,?,?,?,?,?,?,?)",
        Table::NewOrder => "INSERT INTO new_order VALUES (?,?,?)",
        Table::OrderLine => "INSERT INTO order_line VALUES (?,?,?,?,?,?,?,?,?,?)",
    }
}

fn put(connection: &Connection, record: &Record<'_>) -> Result<()> {
    let run = |table: Table, values: &[&dyn ToSql]| -> Result<()> {
        connection.prepare_cached(insert(table))?.execute(values)?;
        Ok(())
    };
    match record {
        Record::Item(row) => run(Table::Item, params![row.id, row.image, row.name, row.price, row.data]),
        Record::Warehouse(row) => {
            let [street_1, street_2, city, state, zip] = row.address.parts();
            run(Table::Warehouse, params![row.id, row.name, street_1, street_2, city, state, zip, row.tax, row.ytd])
        }
        Record::District(row) => {
            let [street_1, street_2, city, state, zip] = row.address.parts();
            let District { warehouse, id, name, tax, ytd, next_order, .. } = row;
            run(
                Table::District,
                params![warehouse, id, name, street_1, street_2, city, state, zip, tax, ytd, next_order],
            )
        }
        Record::Stock(row) => {
            let mut values: Vec<&dyn ToSql> = vec![&row.warehouse, &row.item, &row.quantity];
            values.extend(row.district_info.iter().map(|info| info as &dyn ToSql));
            values.extend([&row.ytd as &dyn ToSql, &row.orders, &row.remote, &row.data]);
            run(Table::Stock, &values)
        }
        Record::Customer(row) => {
            let address = row.address.parts();
            let mut values: Vec<&dyn ToSql> = vec![&row.warehouse, &row.district, &row.id];
            values.extend([&row.first as &dyn ToSql, &row.middle, &row.last]);
            values.extend(address.iter().map(|part| part as &dyn ToSql));
            values.extend([&row.phone as &dyn ToSql, &row.since, &row.credit, &row.credit_limit, &row.discount]);
            values.extend([&row.balance as &dyn ToSql, &row.ytd_payment, &row.payments, &row.deliveries, &row.data]);
            run(Table::Customer, &values)
        }
        Record::History(row) => run(
            Table::History,
            params![
                row.customer,
                row.customer_district,
                row.customer_warehouse,
                row.district,
                row.warehouse,
                row.date,
                row.amount,
                row.data
            ],
        ),
        Record::Order(row) => {
            let Order { warehouse, district, id, customer, entered, carrier, lines, is_local } = row;
            run(Table::Order, params![warehouse, district, id, customer, entered, carrier, lines, is_local])
        }
        Record::NewOrder(row) => run(Table::NewOrder, params![row.warehouse, row.district, row.order]),
        Record::OrderLine(row) => run(
            Table::OrderLine,
            params![
                row.warehouse,
                row.district,
                row.order,
                row.number,
                row.item,
                row.supply_warehouse,
                row.delivered,
                row.quantity,
                row.amount,
                row.district_info
            ],
        ),
    }
}

impl Contestant for Sqlite {
    fn load(&self, _table: Table, rows: Rows<'_>) -> Result<()> {
        let mut connection = self.connect()?;
        let transaction = connection.transaction()?;
        rows(&mut |record| put(&transaction, record))?;
        Ok(transaction.commit()?)
    }

    fn build_indexes(&self) -> Result<()> {
        Ok(self.connect()?.execute_batch(INDEXES)?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.connect()?.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);")?)
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Terminal { connection: self.connect()? }))
    }

    fn visit(&self, table: Table, take: Take<'_>) -> Result<()> {
        let connection = self.connect()?;
        let order = match table {
            Table::History => "rowid",
            Table::Item | Table::Warehouse => "1",
            Table::District | Table::Stock => "1, 2",
            Table::Customer | Table::Order | Table::NewOrder => "1, 2, 3",
            Table::OrderLine => "1, 2, 3, 4",
        };
        let mut statement = connection.prepare(&format!("SELECT * FROM {} ORDER BY {order}", table.name()))?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            see(table, row, take)?;
        }
        Ok(())
    }
}

/// Lends a row as its record.
fn see(table: Table, row: &rusqlite::Row<'_>, take: Take<'_>) -> Result<()> {
    let text = |place: usize| -> Result<&str> { Ok(row.get_ref(place)?.as_str()?) };
    let address = |at: usize| -> Result<Address<'_>> {
        Ok(Address::of([text(at)?, text(at + 1)?, text(at + 2)?, text(at + 3)?, text(at + 4)?]))
    };
    take(&match table {
        Table::Item => Record::Item(Item {
            id: row.get(0)?,
            image: row.get(1)?,
            name: text(2)?,
            price: row.get(3)?,
            data: text(4)?,
        }),
        Table::Warehouse => Record::Warehouse(Warehouse {
            id: row.get(0)?,
            name: text(1)?,
            address: address(2)?,
            tax: row.get(7)?,
            ytd: row.get(8)?,
        }),
        Table::District => Record::District(District {
            warehouse: row.get(0)?,
            id: row.get(1)?,
            name: text(2)?,
            address: address(3)?,
            tax: row.get(8)?,
            ytd: row.get(9)?,
            next_order: row.get(10)?,
        }),
        Table::Stock => {
            let mut district_info = [""; 10];
            for (district, info) in district_info.iter_mut().enumerate() {
                *info = text(3 + district)?;
            }
            Record::Stock(Stock {
                warehouse: row.get(0)?,
                item: row.get(1)?,
                quantity: row.get(2)?,
                district_info,
                ytd: row.get(13)?,
                orders: row.get(14)?,
                remote: row.get(15)?,
                data: text(16)?,
            })
        }
        Table::Customer => Record::Customer(Customer {
            warehouse: row.get(0)?,
            district: row.get(1)?,
            id: row.get(2)?,
            first: text(3)?,
            middle: text(4)?,
            last: text(5)?,
            address: address(6)?,
            phone: text(11)?,
            since: row.get(12)?,
            credit: text(13)?,
            credit_limit: row.get(14)?,
            discount: row.get(15)?,
            balance: row.get(16)?,
            ytd_payment: row.get(17)?,
            payments: row.get(18)?,
            deliveries: row.get(19)?,
            data: text(20)?,
        }),
        Table::History => Record::History(History {
            customer: row.get(0)?,
            customer_district: row.get(1)?,
            customer_warehouse: row.get(2)?,
            district: row.get(3)?,
            warehouse: row.get(4)?,
            date: row.get(5)?,
            amount: row.get(6)?,
            data: text(7)?,
        }),
        Table::Order => Record::Order(Order {
            warehouse: row.get(0)?,
            district: row.get(1)?,
            id: row.get(2)?,
            customer: row.get(3)?,
            entered: row.get(4)?,
            carrier: row.get(5)?,
            lines: row.get(6)?,
            is_local: row.get(7)?,
        }),
        Table::NewOrder => {
            Record::NewOrder(NewOrder { warehouse: row.get(0)?, district: row.get(1)?, order: row.get(2)? })
        }
        Table::OrderLine => Record::OrderLine(OrderLine {
            warehouse: row.get(0)?,
            district: row.get(1)?,
            order: row.get(2)?,
            number: row.get(3)?,
            item: row.get(4)?,
            supply_warehouse: row.get(5)?,
            delivered: row.get(6)?,
            quantity: row.get(7)?,
            amount: row.get(8)?,
            district_info: text(9)?,
        }),
    })
}
