//! The twelve consistency conditions of clause 3.3.2, of all rows after a run.
//!
//! Condition 11 speaks of the tables as they were loaded, of which 2,100 orders a district are delivered; here those
//! that were delivered since count too.

use std::collections::BTreeMap;

use super::contestant::Contestant;
use super::population::Scale;
use super::records::{Record, Table};
use crate::store::Result;

/// What is known of a district.
#[derive(Default)]
struct District {
    ytd: i64,
    next_order: i32,
    orders: i64,
    last_order: i32,
    lines_of_orders: i64,
    lines: i64,
    history: i64,
    new_orders: i64,
    first_new_order: i32,
    last_new_order: i32,
    deliveries: i64,
}

/// What is known of an order.
#[derive(Default)]
struct Order {
    customer: i32,
    lines: i32,
    found_lines: i32,
    is_delivered: bool,
    is_new: bool,
    delivered_lines: i32,
    amount: i64,
}

/// What is known of a customer.
#[derive(Default)]
struct Customer {
    balance: i64,
    ytd_payment: i64,
    paid: i64,
    delivered: i64,
}

type RowPlace = (i32, i32);

/// Everything that the conditions speak of.
#[derive(Default)]
struct Books {
    warehouses: BTreeMap<i32, i64>,
    districts: BTreeMap<RowPlace, District>,
    orders: BTreeMap<(RowPlace, i32), Order>,
    customers: BTreeMap<(RowPlace, i32), Customer>,
}

impl Books {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        match record {
            Record::Item(_) | Record::Stock(_) => {}
            Record::Warehouse(row) => {
                self.warehouses.insert(row.id, row.ytd);
            }
            Record::District(row) => {
                let district = self.districts.entry((row.warehouse, row.id)).or_default();
                (district.ytd, district.next_order) = (row.ytd, row.next_order);
            }
            Record::Customer(row) => {
                let place = (row.warehouse, row.district);
                self.districts.entry(place).or_default().deliveries += i64::from(row.deliveries);
                let customer = self.customers.entry((place, row.id)).or_default();
                (customer.balance, customer.ytd_payment) = (row.balance, row.ytd_payment);
            }
            Record::History(row) => {
                self.districts.entry((row.warehouse, row.district)).or_default().history += row.amount;
                let of = (row.customer_warehouse, row.customer_district);
                self.customers.entry((of, row.customer)).or_default().paid += row.amount;
            }
            Record::Order(row) => {
                let place = (row.warehouse, row.district);
                let district = self.districts.entry(place).or_default();
                district.orders += 1;
                district.last_order = district.last_order.max(row.id);
                district.lines_of_orders += i64::from(row.lines);
                let order = self.orders.entry((place, row.id)).or_default();
                (order.customer, order.lines, order.is_delivered) = (row.customer, row.lines, row.carrier.is_some());
            }
            Record::NewOrder(row) => {
                let place = (row.warehouse, row.district);
                let district = self.districts.entry(place).or_default();
                if district.new_orders == 0 {
                    district.first_new_order = row.order;
                }
                district.new_orders += 1;
                district.last_new_order = row.order;
                self.orders.entry((place, row.order)).or_default().is_new = true;
            }
            Record::OrderLine(row) => {
                let place = (row.warehouse, row.district);
                self.districts.entry(place).or_default().lines += 1;
                let order = self.orders.entry((place, row.order)).or_default();
                order.found_lines += 1;
                order.amount += row.amount;
                order.delivered_lines += i32::from(row.delivered.is_some());
            }
        }
        Ok(())
    }

    fn judge(mut self, scale: Scale) -> Result<()> {
        for ((place, _), order) in &self.orders {
            if order.is_delivered {
                let customer = self.customers.get_mut(&(*place, order.customer));
                customer.ok_or("an order of no customer")?.delivered += order.amount;
            }
        }
        for (warehouse, ytd) in &self.warehouses {
            let of = || self.districts.range((*warehouse, 0)..=(*warehouse, i32::MAX)).map(|(_, district)| district);
            equal(1, warehouse, *ytd, of().map(|district| district.ytd).sum())?;
            equal(8, warehouse, *ytd, of().map(|district| district.history).sum())?;
        }
        for (place, district) in &self.districts {
            equal(2, place, i64::from(district.next_order) - 1, i64::from(district.last_order))?;
            if district.new_orders > 0 {
                equal(2, place, i64::from(district.last_order), i64::from(district.last_new_order))?;
                let width = district.last_new_order - district.first_new_order + 1;
                equal(3, place, i64::from(width), district.new_orders)?;
            }
            equal(4, place, district.lines_of_orders, district.lines)?;
            equal(9, place, district.ytd, district.history)?;
            let delivered_first = i64::from(scale.customers - scale.customers * 3 / 10);
            equal(11, place, district.orders - district.new_orders, delivered_first + district.deliveries)?;
        }
        for (place, order) in &self.orders {
            equal(5, place, i64::from(!order.is_delivered), i64::from(order.is_new))?;
            equal(6, place, i64::from(order.lines), i64::from(order.found_lines))?;
            let delivered = if order.is_delivered { order.found_lines } else { 0 };
            equal(7, place, i64::from(order.delivered_lines), i64::from(delivered))?;
        }
        for (place, customer) in &self.customers {
            equal(10, place, customer.balance, customer.delivered - customer.paid)?;
            equal(12, place, customer.balance + customer.ytd_payment, customer.delivered)?;
        }
        Ok(())
    }
}

fn equal(condition: u8, place: &impl std::fmt::Debug, left: i64, right: i64) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(format!("consistency condition {condition} does not hold at {place:?}: {left} is not {right}").into())
}

/// Whether all conditions hold, and the store's own check finds nothing.
///
/// # Errors
/// The first condition that does not hold, and where; what the store's check found; those of reading.
pub(crate) fn check(of: &dyn Contestant, scale: Scale) -> Result<()> {
    let mut books = Books::default();
    for table in Table::ALL {
        of.visit(table, &mut |record| books.take(record))?;
    }
    books.judge(scale)?;
    of.check()
}
