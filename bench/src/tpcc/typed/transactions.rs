//! The five transactions over typed rows.

use std::cell::Cell;

use quipu::{Error, ErrorKind};
use quipu_rows::{Ordered, Retry, RowChange, RowTransaction, Span, TableIn, Value};
use rand::rngs::SmallRng;

use super::schema::{integer, maybe_number, money, number, place, text, time};
use super::{Typed, Way};
use crate::store::Result;
use crate::tpcc::contestant::{Answer, Ending, Session};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::records::Table;
use crate::tpcc::requests::{
    DeliveryRequest, NewOrderRequest, OrderStatusRequest, PaymentRequest, StockLevelRequest, Who,
};
use crate::tpcc::rules;

/// A session.
pub(super) struct Terminal<'a> {
    pub(super) of: &'a Typed,
    pub(super) random: SmallRng,
    pub(super) retries: u64,
}

impl Terminal<'_> {
    /// Runs a transaction that writes, in the contestant's way.
    fn write<T>(&mut self, work: impl Fn(&RowTransaction<'_>) -> quipu::Result<T>) -> quipu::Result<T> {
        match self.of.way {
            Way::SingleWriter => self.of.database.write(work),
            Way::Optimistic => {
                let attempts = Cell::new(0_u64);
                let counted = |transaction: &RowTransaction<'_>| {
                    attempts.set(attempts.get() + 1);
                    work(transaction)
                };
                let wait = &mut std::thread::park_timeout;
                let result = Retry::default().run(&self.of.database, &mut self.random, wait, counted);
                self.retries += attempts.get().saturating_sub(1);
                result
            }
        }
    }
}

/// The error of a row that must be there and is not.
fn gone(table: Table) -> Error {
    Error::new(ErrorKind::Missing, format!("{}: a row that must be there is not", table.name()))
}

/// Adds `amount`, in units of the column, to one or more columns of numbers.
fn add<'x>(table: &TableIn<'_, RowTransaction<'x>>, amounts: &[(&'static str, i64, bool)]) -> quipu::Result<RowChange> {
    let names: Vec<&str> = amounts.iter().map(|(name, ..)| *name).collect();
    let amounts = amounts.to_vec();
    table.change(&names, move |row| {
        let add = |(name, amount, is_money): &(&'static str, i64, bool)| match row.get(name)? {
            Value::Decimal(number) if *is_money => Ok(money(number.units() as i64 + amount)),
            Value::Int(number) => Ok(Value::Int(number + i128::from(*amount))),
            other => Err(Error::new(ErrorKind::Invalid, format!("{name} holds {other}"))),
        };
        amounts.iter().map(add).collect()
    })
}

/// The number of the customer who is meant.
fn customer_number<P: quipu_rows::Trees>(
    customers: &TableIn<'_, P>,
    (warehouse, district): (i32, i32),
    who: &Who,
) -> quipu::Result<i32> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::LastName(name) => {
            let span = Span::eq((warehouse, district, name.as_str()));
            let entries = customers.entries("by_name")?;
            let count = entries.count(span.clone())?;
            if count == 0 {
                return Err(gone(Table::Customer));
            }
            let entry = entries.nth(span, rules::middle_of(count))?.ok_or_else(|| gone(Table::Customer))?;
            integer(&entry.view()?, place::customer::ID)
        }
    }
}

/// An order of an item that is not there, which is noted in `is_unused`, is an error, so that it is rolled back.
fn new_order(
    transaction: &RowTransaction<'_>,
    request: &NewOrderRequest,
    is_unused: &Cell<bool>,
) -> quipu::Result<Ending> {
    let NewOrderRequest { warehouse, district, customer, lines, entered } = request;
    let (warehouse, district) = (*warehouse, *district);
    let mut answer = Answer::default();
    let warehouses = transaction.table("warehouse")?;
    let tax = warehouses.columns(&["w_tax"])?;
    let row = warehouses.get_columns(warehouse, &tax)?.ok_or_else(|| gone(Table::Warehouse))?;
    let warehouse_tax = number(&row.view()?, place::warehouse::TAX)?;

    let districts = transaction.table("district")?;
    let read = districts.columns(&["d_tax", "d_next_o_id"])?;
    let row = districts.get_columns((warehouse, district), &read)?.ok_or_else(|| gone(Table::District))?;
    let row = row.view()?;
    let district_tax = number(&row, place::district::TAX)?;
    let order = integer(&row, place::district::NEXT_ORDER)?;
    districts.update((warehouse, district), &[("d_next_o_id", (order + 1).into())])?;

    let customers = transaction.table("customer")?;
    let read = customers.columns(&["c_discount", "c_last", "c_credit"])?;
    let row = customers.get_columns((warehouse, district, *customer), &read)?.ok_or_else(|| gone(Table::Customer))?;
    let row = row.view()?;
    let discount = number(&row, place::customer::DISCOUNT)?;
    answer.text(&text(&row, place::customer::LAST)?);
    answer.text(&text(&row, place::customer::CREDIT)?);
    [discount, warehouse_tax, district_tax].into_iter().for_each(|number| answer.number(number));
    answer.number(order);

    let count = lines.len() as i32;
    transaction.table("orders")?.insert_values(&[
        warehouse.into(),
        district.into(),
        order.into(),
        (*customer).into(),
        time(*entered),
        Value::Null,
        count.into(),
        Value::Bool(request.is_local()),
    ])?;
    transaction.table("new_order")?.insert((warehouse, district, order))?;

    let items = transaction.table("item")?.get_many(lines.iter().map(|line| line.item))?;
    let (stock, order_lines) = (transaction.table("stock")?, transaction.table("order_line")?);
    let mut sum = 0;
    let mut district_info = String::new();
    for (at, (line, item)) in (1..).zip(lines.iter().zip(&items)) {
        let Some(item) = item else {
            is_unused.set(true);
            return Err(Error::new(ErrorKind::Missing, "an item of the order is not there"));
        };
        let item = item.view()?;
        let amount = number(&item, place::item::PRICE)? * i64::from(line.quantity);
        sum += amount;
        let is_original = text(&item, place::item::DATA)?.contains("ORIGINAL");
        let (mut left, mut is_brand) = (0, false);
        let is_there = stock.update_with((line.supply_warehouse, line.item), |row| {
            left = rules::left_in_stock(integer(row, place::stock::QUANTITY)?, line.quantity);
            district_info.clear();
            district_info.push_str(&text(row, place::stock::DISTRICT_INFO + district as usize - 1)?);
            is_brand = is_original && text(row, place::stock::DATA)?.contains("ORIGINAL");
            let remote = i32::from(line.supply_warehouse != warehouse);
            let mut changes = vec![
                (place::stock::QUANTITY, left.into()),
                (place::stock::YTD, (number(row, place::stock::YTD)? + i64::from(line.quantity)).into()),
                (place::stock::ORDERS, (integer(row, place::stock::ORDERS)? + 1).into()),
            ];
            if remote > 0 {
                changes.push((place::stock::REMOTE, (integer(row, place::stock::REMOTE)? + remote).into()));
            }
            Ok(changes)
        })?;
        if !is_there {
            return Err(gone(Table::Stock));
        }
        order_lines.insert_values(&[
            warehouse.into(),
            district.into(),
            order.into(),
            at.into(),
            line.item.into(),
            line.supply_warehouse.into(),
            Value::Null,
            line.quantity.into(),
            money(amount),
            district_info.as_str().into(),
        ])?;
        answer.text(&text(&item, place::item::NAME)?);
        [amount, i64::from(left), i64::from(is_brand)].into_iter().for_each(|number| answer.number(number));
    }
    answer.number(rules::total(sum, discount, warehouse_tax + district_tax));
    Ok(answer.ending())
}

fn payment(transaction: &RowTransaction<'_>, request: &PaymentRequest) -> quipu::Result<Ending> {
    let PaymentRequest { warehouse, district, customer_warehouse, customer_district, who, amount, date } = request;
    let (warehouse, district, amount) = (*warehouse, *district, *amount);
    let mut answer = Answer::default();
    let warehouses = transaction.table("warehouse")?;
    warehouses.apply(warehouse, &add(&warehouses, &[("w_ytd", amount, true)])?)?;
    let read = warehouses.columns(&["w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip"])?;
    let of_warehouse = warehouses.get_columns(warehouse, &read)?.ok_or_else(|| gone(Table::Warehouse))?;
    let of_warehouse = of_warehouse.view()?;
    for part in place::warehouse::NAME..place::warehouse::TAX {
        answer.text(&text(&of_warehouse, part)?);
    }

    let districts = transaction.table("district")?;
    districts.apply((warehouse, district), &add(&districts, &[("d_ytd", amount, true)])?)?;
    let read = districts.columns(&["d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip"])?;
    let of_district = districts.get_columns((warehouse, district), &read)?.ok_or_else(|| gone(Table::District))?;
    let of_district = of_district.view()?;
    for part in place::district::NAME..place::district::TAX {
        answer.text(&text(&of_district, part)?);
    }

    let customers = transaction.table("customer")?;
    let id = customer_number(&customers, (*customer_warehouse, *customer_district), who)?;
    let is_there = customers.update_with((*customer_warehouse, *customer_district, id), |row| {
        use place::customer::*;
        let balance = number(row, BALANCE)? - amount;
        let mut changes = vec![
            (BALANCE, money(balance)),
            (YTD_PAYMENT, money(number(row, YTD_PAYMENT)? + amount)),
            (PAYMENTS, (integer(row, PAYMENTS)? + 1).into()),
        ];
        for part in FIRST..SINCE {
            answer.text(&text(row, part)?);
        }
        let credit = text(row, CREDIT)?;
        answer.text(&credit);
        [number(row, CREDIT_LIMIT)?, number(row, DISCOUNT)?, balance].into_iter().for_each(|of| answer.number(of));
        if credit == "BC" {
            let customer = [*customer_warehouse, *customer_district, id];
            let data = rules::bad_credit_data(customer, (warehouse, district), amount, &text(row, DATA)?);
            answer.text(&data[..data.floor_char_boundary(200)]);
            changes.push((DATA, Value::Text(data.into())));
        }
        Ok(changes)
    })?;
    if !is_there {
        return Err(gone(Table::Customer));
    }
    let data =
        rules::history_data(&text(&of_warehouse, place::warehouse::NAME)?, &text(&of_district, place::district::NAME)?);
    transaction.table("history")?.insert_values(&[
        id.into(),
        (*customer_district).into(),
        (*customer_warehouse).into(),
        district.into(),
        warehouse.into(),
        time(*date),
        money(amount),
        data.as_str().into(),
    ])?;
    Ok(answer.ending())
}

fn delivery(transaction: &RowTransaction<'_>, request: &DeliveryRequest) -> quipu::Result<Ending> {
    let DeliveryRequest { warehouse, carrier, date } = *request;
    let mut answer = Answer::default();
    let [waiting, orders, lines, customers] = [
        transaction.table("new_order")?,
        transaction.table("orders")?,
        transaction.table("order_line")?,
        transaction.table("customer")?,
    ];
    for district in 1..=DISTRICTS {
        let Some(first) = waiting.first(Span::eq((warehouse, district)))? else { continue };
        let order = integer(&first.view()?, 2)?;
        waiting.delete((warehouse, district, order))?;
        answer.number(order);
        let mut customer = 0;
        let is_there = orders.update_with((warehouse, district, order), |row| {
            customer = integer(row, place::order::CUSTOMER)?;
            Ok(vec![(place::order::CARRIER, carrier.into())])
        })?;
        if !is_there {
            return Err(gone(Table::Order));
        }
        let (mut numbers, mut sum) = (Vec::new(), 0);
        lines.for_each(Span::eq((warehouse, district, order)), |row| {
            numbers.push(integer(&row, place::line::NUMBER)?);
            sum += number(&row, place::line::AMOUNT)?;
            Ok(true)
        })?;
        for number in numbers {
            lines.update((warehouse, district, order, number), &[("ol_delivery_d", time(date))])?;
        }
        let paid = add(&customers, &[("c_balance", sum, true), ("c_delivery_cnt", 1, false)])?;
        if !customers.apply((warehouse, district, customer), &paid)? {
            return Err(gone(Table::Customer));
        }
    }
    Ok(answer.ending())
}

impl Session for Terminal<'_> {
    fn new_order(&mut self, request: &NewOrderRequest) -> Result<Ending> {
        let is_unused = Cell::new(false);
        match self.write(|transaction| new_order(transaction, request, &is_unused)) {
            Err(_) if is_unused.get() => Ok(Ending::RolledBack),
            result => Ok(result?),
        }
    }

    fn payment(&mut self, request: &PaymentRequest) -> Result<Ending> {
        Ok(self.write(|transaction| payment(transaction, request))?)
    }

    fn order_status(&mut self, request: &OrderStatusRequest) -> Result<Ending> {
        let OrderStatusRequest { warehouse, district, who } = request;
        let (warehouse, district) = (*warehouse, *district);
        let mut answer = Answer::default();
        let now = self.of.database.snapshot();
        let customers = now.table("customer")?;
        let id = customer_number(&customers, (warehouse, district), who)?;
        customers.get_with((warehouse, district, id), |row| {
            let row = row.ok_or_else(|| gone(Table::Customer))?;
            for part in [place::customer::FIRST, place::customer::MIDDLE, place::customer::LAST] {
                answer.text(&text(&row, part)?);
            }
            answer.number(number(&row, place::customer::BALANCE)?);
            Ok(())
        })?;
        let orders = now.table("orders")?;
        if let Some(order) = orders.index("by_customer")?.last(Span::eq((warehouse, district, id)))? {
            let order = order.view()?;
            let number_of_order = integer(&order, place::order::ID)?;
            answer.number(number_of_order);
            answer.number(number(&order, place::order::ENTERED)?);
            answer.number(maybe_number(&order, place::order::CARRIER)?.unwrap_or(0));
            now.table("order_line")?.for_each(Span::eq((warehouse, district, number_of_order)), |row| {
                use place::line::*;
                for part in [ITEM, SUPPLY, QUANTITY, AMOUNT] {
                    answer.number(number(&row, part)?);
                }
                answer.number(maybe_number(&row, DELIVERED)?.unwrap_or(0));
                Ok(true)
            })?;
        }
        Ok(answer.ending())
    }

    fn delivery(&mut self, request: &DeliveryRequest) -> Result<Ending> {
        Ok(self.write(|transaction| delivery(transaction, request))?)
    }

    fn stock_level(&mut self, request: &StockLevelRequest) -> Result<Ending> {
        let StockLevelRequest { warehouse, district, threshold } = *request;
        let now = self.of.database.snapshot();
        let next = now.table("district")?.get_with((warehouse, district), |row| {
            integer(&row.ok_or_else(|| gone(Table::District))?, place::district::NEXT_ORDER)
        })?;
        let mut items = Vec::new();
        let recent = Span::ge((warehouse, district, next - 20)).and_lt((warehouse, district, next));
        now.table("order_line")?.for_each(recent, |row| {
            items.push(integer(&row, place::line::ITEM)?);
            Ok(true)
        })?;
        items.sort_unstable();
        items.dedup();
        let mut low = 0_i64;
        for row in now.table("stock")?.get_many(items.into_iter().map(|item| (warehouse, item)))? {
            let row = row.ok_or_else(|| gone(Table::Stock))?;
            low += i64::from(integer(&row.view()?, place::stock::QUANTITY)? < threshold);
        }
        let mut answer = Answer::default();
        answer.number(low);
        Ok(answer.ending())
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}
