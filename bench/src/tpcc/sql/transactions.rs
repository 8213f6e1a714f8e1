//! The five transactions, as prepared statements.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::insert;
use crate::store::Result;
use crate::tpcc::contestant::{Answer, Ending, Session, missing};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::records::Table;
use crate::tpcc::requests::{
    DeliveryRequest, NewOrderRequest, OrderStatusRequest, PaymentRequest, StockLevelRequest, Who,
};
use crate::tpcc::rules;

/// A session.
pub(super) struct Terminal {
    pub(super) connection: Connection,
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
