//! SQLite: the nine tables as SQL has them, prepared statements, a connection for each session; settings as in
//! `peers/sqlite.rs`. Money is an INTEGER of cents.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, ToSql, TransactionBehavior, params};

use super::contestant::{Answer, Contestant, ContestantKind, Ending, Rows, Session, missing};
use super::population::{DISTRICTS, Take};
use super::records::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Record, Stock, Table, Warehouse,
};
use super::requests::{DeliveryRequest, NewOrderRequest, OrderStatusRequest, PaymentRequest, StockLevelRequest, Who};
use super::rules;
use crate::store::{Durability, Result, Setup};

pub(crate) const SQLITE: ContestantKind = ContestantKind {
    name: "sqlite",
    settings: "SQLite (bundled): SQL, WITHOUT ROWID; WAL, synchronous OFF for none and os, FULL for sync",
    has_cache: true,
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
        let connection = Connection::open(&self.path)?;
        let synchronous = if self.setup.durability == Durability::Sync { "FULL" } else { "OFF" };
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{}; PRAGMA temp_store = MEMORY;",
            self.setup.cache_bytes >> 10
        ))?;
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

struct Terminal {
    connection: Connection,
}

impl Terminal {
    /// Runs a transaction that writes, or one that reads.
    fn run(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Connection) -> Result<Ending>,
    ) -> Result<Ending> {
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let ending = work(&transaction)?;
        match ending {
            Ending::Committed(_) => transaction.commit()?,
            Ending::RolledBack => transaction.rollback()?,
        }
        Ok(ending)
    }
}

/// The number of the customer who is meant.
fn customer_number(connection: &Connection, (warehouse, district): (i32, i32), who: &Who) -> Result<i32> {
    let name = match who {
        Who::Id(id) => return Ok(*id),
        Who::LastName(name) => name,
    };
    let sql = "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first";
    let mut statement = connection.prepare_cached(sql)?;
    let numbers = statement.query_map(params![warehouse, district, name], |row| row.get(0))?;
    let numbers: Vec<i32> = numbers.collect::<rusqlite::Result<_>>()?;
    if numbers.is_empty() {
        return Err(missing(Table::Customer, &[warehouse, district]));
    }
    Ok(numbers[rules::middle_of(numbers.len() as u64) as usize])
}

/// Shows the texts in the first columns of a row.
fn show(answer: &mut Answer, row: &rusqlite::Row<'_>, texts: usize) -> rusqlite::Result<()> {
    for place in 0..texts {
        answer.text(row.get_ref(place)?.as_str()?);
    }
    Ok(())
}

fn new_order(connection: &Connection, request: &NewOrderRequest) -> Result<Ending> {
    let NewOrderRequest { warehouse, district, customer, lines, entered } = request;
    let mut answer = Answer::default();
    let warehouse_tax: i64 = connection
        .prepare_cached("SELECT w_tax FROM warehouse WHERE w_id = ?")?
        .query_one(params![warehouse], |row| row.get(0))?;
    let (district_tax, order): (i64, i32) = connection
        .prepare_cached("SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?")?
        .query_one(params![warehouse, district], |row| Ok((row.get(0)?, row.get(1)?)))?;
    connection
        .prepare_cached("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?")?
        .execute(params![warehouse, district])?;
    let discount: i64 = connection
        .prepare_cached(
            "SELECT c_last, c_credit, c_discount FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_one(params![warehouse, district, customer], |row| {
            show(&mut answer, row, 2)?;
            row.get(2)
        })?;
    [discount, warehouse_tax, district_tax].into_iter().for_each(|number| answer.number(number));
    answer.number(order);
    connection.prepare_cached(insert(Table::Order))?.execute(params![
        warehouse,
        district,
        order,
        customer,
        entered,
        None::<i32>,
        lines.len() as i64,
        request.is_local()
    ])?;
    connection.prepare_cached(insert(Table::NewOrder))?.execute(params![warehouse, district, order])?;
    let read_stock =
        format!("SELECT s_dist_{district:02}, s_data, s_quantity FROM stock WHERE s_w_id = ? AND s_i_id = ?");
    let mut sum = 0;
    for (number, line) in (1..).zip(lines) {
        let item = connection
            .prepare_cached("SELECT i_name, i_data, i_price FROM item WHERE i_id = ?")?
            .query_one(params![line.item], |row| {
                let (name, price): (String, i64) = (row.get(0)?, row.get(2)?);
                Ok((name, row.get_ref(1)?.as_str()?.contains("ORIGINAL"), price))
            })
            .optional()?;
        let Some((name, is_original, price)) = item else { return Ok(Ending::RolledBack) };
        let amount = price * i64::from(line.quantity);
        sum += amount;
        let (info, is_brand, left) =
            connection.prepare_cached(&read_stock)?.query_one(params![line.supply_warehouse, line.item], |row| {
                let info: String = row.get(0)?;
                let is_brand = is_original && row.get_ref(1)?.as_str()?.contains("ORIGINAL");
                Ok((info, is_brand, rules::left_in_stock(row.get(2)?, line.quantity)))
            })?;
        connection
            .prepare_cached(
                "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,
                 s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
            )?
            .execute(params![
                left,
                line.quantity,
                i32::from(line.supply_warehouse != *warehouse),
                line.supply_warehouse,
                line.item
            ])?;
        connection.prepare_cached(insert(Table::OrderLine))?.execute(params![
            warehouse,
            district,
            order,
            number,
            line.item,
            line.supply_warehouse,
            None::<i64>,
            line.quantity,
            amount,
            info
        ])?;
        answer.text(&name);
        [amount, i64::from(left), i64::from(is_brand)].into_iter().for_each(|number| answer.number(number));
    }
    answer.number(rules::total(sum, discount, warehouse_tax + district_tax));
    Ok(answer.ending())
}

fn payment(connection: &Connection, request: &PaymentRequest) -> Result<Ending> {
    let PaymentRequest { warehouse, district, customer_warehouse, customer_district, who, amount, date } = request;
    let mut answer = Answer::default();
    connection
        .prepare_cached("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?")?
        .execute(params![amount, warehouse])?;
    let warehouse_name: String = connection
        .prepare_cached("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?")?
        .query_one(params![warehouse], |row| {
            show(&mut answer, row, 6)?;
            row.get(0)
        })?;
    connection
        .prepare_cached("UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?")?
        .execute(params![amount, warehouse, district])?;
    let district_name: String = connection
        .prepare_cached(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = ? AND d_id = ?",
        )?
        .query_one(params![warehouse, district], |row| {
            show(&mut answer, row, 6)?;
            row.get(0)
        })?;
    let id = customer_number(connection, (*customer_warehouse, *customer_district), who)?;
    let customer = [*customer_warehouse, *customer_district, id];
    let is_bad: bool = connection
        .prepare_cached(
            "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit,
             c_credit_lim, c_discount, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_one(customer, |row| {
            show(&mut answer, row, 10)?;
            let (limit, discount, balance): (i64, i64, i64) = (row.get(10)?, row.get(11)?, row.get(12)?);
            [limit, discount, balance - amount].into_iter().for_each(|of| answer.number(of));
            Ok(row.get_ref(9)?.as_str()? == "BC")
        })?;
    if is_bad {
        let data: String = connection
            .prepare_cached("SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?")?
            .query_one(customer, |row| row.get(0))?;
        let data = rules::bad_credit_data(customer, (*warehouse, *district), *amount, &data);
        answer.text(&data[..data.floor_char_boundary(200)]);
        connection
            .prepare_cached(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
                 c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            )?
            .execute(params![amount, amount, data, customer_warehouse, customer_district, id])?;
    } else {
        connection
            .prepare_cached(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            )?
            .execute(params![amount, amount, customer_warehouse, customer_district, id])?;
    }
    connection.prepare_cached(insert(Table::History))?.execute(params![
        id,
        customer_district,
        customer_warehouse,
        district,
        warehouse,
        date,
        amount,
        rules::history_data(&warehouse_name, &district_name)
    ])?;
    Ok(answer.ending())
}

fn order_status(connection: &Connection, request: &OrderStatusRequest) -> Result<Ending> {
    let OrderStatusRequest { warehouse, district, who } = request;
    let mut answer = Answer::default();
    let id = customer_number(connection, (*warehouse, *district), who)?;
    connection
        .prepare_cached(
            "SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_one(params![warehouse, district, id], |row| {
            show(&mut answer, row, 3)?;
            answer.number(row.get::<_, i64>(3)?);
            Ok(())
        })?;
    let order: Option<i32> = connection
        .prepare_cached(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?
             ORDER BY o_id DESC LIMIT 1",
        )?
        .query_one(params![warehouse, district, id], |row| {
            let order: i32 = row.get(0)?;
            answer.number(order);
            answer.number(row.get::<_, i64>(1)?);
            answer.number(row.get::<_, Option<i64>>(2)?.unwrap_or(0));
            Ok(order)
        })
        .optional()?;
    let Some(order) = order else { return Ok(answer.ending()) };
    let mut statement = connection.prepare_cached(
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
         WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ? ORDER BY ol_number",
    )?;
    let mut rows = statement.query(params![warehouse, district, order])?;
    while let Some(row) = rows.next()? {
        for place in 0..4 {
            answer.number(row.get::<_, i64>(place)?);
        }
        answer.number(row.get::<_, Option<i64>>(4)?.unwrap_or(0));
    }
    Ok(answer.ending())
}

fn delivery(connection: &Connection, request: &DeliveryRequest) -> Result<Ending> {
    let DeliveryRequest { warehouse, carrier, date } = *request;
    let mut answer = Answer::default();
    for district in 1..=DISTRICTS {
        let order: Option<i32> = connection
            .prepare_cached("SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1")?
            .query_one(params![warehouse, district], |row| row.get(0))
            .optional()?;
        let Some(order) = order else { continue };
        let key = [warehouse, district, order];
        connection
            .prepare_cached("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?")?
            .execute(key)?;
        answer.number(order);
        let customer: i32 = connection
            .prepare_cached("SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?")?
            .query_one(key, |row| row.get(0))?;
        connection
            .prepare_cached("UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?")?
            .execute(params![carrier, warehouse, district, order])?;
        connection
            .prepare_cached(
                "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            )?
            .execute(params![date, warehouse, district, order])?;
        let sum: i64 = connection
            .prepare_cached("SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?")?
            .query_one(key, |row| row.get(0))?;
        connection
            .prepare_cached(
                "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            )?
            .execute(params![sum, warehouse, district, customer])?;
    }
    Ok(answer.ending())
}

fn stock_level(connection: &Connection, request: &StockLevelRequest) -> Result<Ending> {
    let StockLevelRequest { warehouse, district, threshold } = *request;
    let next: i32 = connection
        .prepare_cached("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?")?
        .query_one(params![warehouse, district], |row| row.get(0))?;
    let low: i64 = connection
        .prepare_cached(
            "SELECT count(DISTINCT s_i_id) FROM order_line CROSS JOIN stock
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ?
             AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < ?",
        )?
        .query_one(params![warehouse, district, next - 20, next, threshold], |row| row.get(0))?;
    let mut answer = Answer::default();
    answer.number(low);
    Ok(answer.ending())
}

impl Session for Terminal {
    fn new_order(&mut self, request: &NewOrderRequest) -> Result<Ending> {
        self.run(TransactionBehavior::Immediate, |connection| new_order(connection, request))
    }

    fn payment(&mut self, request: &PaymentRequest) -> Result<Ending> {
        self.run(TransactionBehavior::Immediate, |connection| payment(connection, request))
    }

    fn order_status(&mut self, request: &OrderStatusRequest) -> Result<Ending> {
        self.run(TransactionBehavior::Deferred, |connection| order_status(connection, request))
    }

    fn delivery(&mut self, request: &DeliveryRequest) -> Result<Ending> {
        self.run(TransactionBehavior::Immediate, |connection| delivery(connection, request))
    }

    fn stock_level(&mut self, request: &StockLevelRequest) -> Result<Ending> {
        self.run(TransactionBehavior::Deferred, |connection| stock_level(connection, request))
    }
}
