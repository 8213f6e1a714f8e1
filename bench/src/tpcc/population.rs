//! The rows that the tables have at first (clause 4.3.3), in the order of their primary keys.
//!
//! Each district of each table has a seed of its own, so that any table can be made without the others.

use super::encoding::encode;
use super::random::{self, Texts, one_in, uniform};
use super::records::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Record, Stock, Table, Warehouse,
};
use crate::rows::{Draw, mix64};
use crate::store::Result;

/// Districts of a warehouse.
pub(crate) const DISTRICTS: i32 = 10;

/// When everything that is there at first was entered: 2026-01-01, in microseconds.
pub(crate) const LOADED_AT: i64 = 1_767_225_600_000_000;

/// How many rows there are. All but the warehouses are fixed by the specification; smoke tests have fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) warehouses: i32,
    pub(crate) items: i32,
    /// Of a district. It has as many orders.
    pub(crate) customers: i32,
}

impl Scale {
    /// That of the specification.
    pub(crate) fn full(warehouses: i32) -> Scale {
        Scale { warehouses, items: 100_000, customers: 3_000 }
    }

    /// One that only shows that the workload runs.
    pub(crate) fn smoke() -> Scale {
        Scale { warehouses: 2, items: 200, customers: 30 }
    }

    /// Different last names.
    pub(crate) fn last_names(&self) -> i32 {
        self.customers.min(1000)
    }

    /// The first order of a district that is not delivered: three of ten are not.
    fn first_new_order(&self) -> i32 {
        self.customers - self.customers * 3 / 10 + 1
    }

    fn districts(&self) -> impl Iterator<Item = (i32, i32)> + use<> {
        (1..=self.warehouses).flat_map(|warehouse| (1..=DISTRICTS).map(move |district| (warehouse, district)))
    }
}

/// Takes one row after the other.
pub(crate) type Take<'t> = &'t mut dyn FnMut(&Record<'_>) -> Result<()>;

/// What makes the rows of a table.
pub(crate) struct Population {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
}

impl Population {
    fn draw(&self, table: Table, warehouse: i32, district: i32) -> Draw {
        let place = ((table as u64) << 48) | ((warehouse as u64) << 16) | district as u64;
        Draw::new(mix64(self.seed ^ mix64(place)))
    }

    /// The bytes of all rows: keys and values as `encoding` makes them.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let (mut bytes, mut key, mut value) = (0, Vec::new(), Vec::new());
        for table in Table::ALL {
            self.rows_of(table, &mut |record| {
                key.clear();
                value.clear();
                encode(record, || 0, &mut key, &mut value)?;
                bytes += (key.len() + value.len()) as u64;
                Ok(())
            })?;
        }
        Ok(bytes)
    }

    /// Makes all rows of a table.
    pub(crate) fn rows_of(&self, table: Table, take: Take<'_>) -> Result<()> {
        let mut texts = Texts::default();
        match table {
            Table::Item => self.items(&mut texts, take)?,
            Table::Warehouse => {
                for id in 1..=self.scale.warehouses {
                    self.warehouse(id, &mut texts, take)?;
                }
            }
            Table::Stock => {
                for warehouse in 1..=self.scale.warehouses {
                    self.stock(warehouse, &mut texts, take)?;
                }
            }
            Table::District => {
                for place in self.scale.districts() {
                    self.district(place, &mut texts, take)?;
                }
            }
            Table::Customer => {
                for place in self.scale.districts() {
                    self.customers(place, &mut texts, take)?;
                }
            }
            Table::History => {
                for place in self.scale.districts() {
                    self.history(place, &mut texts, take)?;
                }
            }
            Table::Order => {
                for place in self.scale.districts() {
                    self.orders(place).into_iter().try_for_each(|order| take(&Record::Order(order)))?;
                }
            }
            Table::NewOrder => {
                for (warehouse, district) in self.scale.districts() {
                    for order in self.scale.first_new_order()..=self.scale.customers {
                        take(&Record::NewOrder(NewOrder { warehouse, district, order }))?;
                    }
                }
            }
            Table::OrderLine => {
                for place in self.scale.districts() {
                    self.order_lines(place, &mut texts, take)?;
                }
            }
        }
        Ok(())
    }

    fn items(&self, texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::Item, 0, 0);
        for id in 1..=self.scale.items {
            texts.clear();
            texts.letters(&mut draw, 14, 24);
            texts.data(&mut draw, 26, 50);
            let (image, price) = (uniform(&mut draw, 1, 10_000), i64::from(uniform(&mut draw, 100, 10_000)));
            take(&Record::Item(Item { id, image, name: texts.at(0), price, data: texts.at(1) }))?;
        }
        Ok(())
    }

    fn warehouse(&self, id: i32, texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::Warehouse, id, 0);
        texts.clear();
        texts.letters(&mut draw, 6, 10);
        texts.address(&mut draw);
        let tax = i64::from(uniform(&mut draw, 0, 2_000));
        let ytd = i64::from(DISTRICTS) * self.district_ytd();
        take(&Record::Warehouse(Warehouse { id, name: texts.at(0), address: address(texts, 1), tax, ytd }))
    }

    /// What the customers of a district have paid: ten each.
    fn district_ytd(&self) -> i64 {
        1_000 * i64::from(self.scale.customers)
    }

    fn district(&self, (warehouse, id): (i32, i32), texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::District, warehouse, id);
        texts.clear();
        texts.letters(&mut draw, 6, 10);
        texts.address(&mut draw);
        take(&Record::District(District {
            warehouse,
            id,
            name: texts.at(0),
            address: address(texts, 1),
            tax: i64::from(uniform(&mut draw, 0, 2_000)),
            ytd: self.district_ytd(),
            next_order: self.scale.customers + 1,
        }))
    }

    fn stock(&self, warehouse: i32, texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::Stock, warehouse, 0);
        for item in 1..=self.scale.items {
            texts.clear();
            (0..DISTRICTS).for_each(|_| texts.letters(&mut draw, 24, 24));
            texts.data(&mut draw, 26, 50);
            take(&Record::Stock(Stock {
                warehouse,
                item,
                quantity: uniform(&mut draw, 10, 100),
                district_info: std::array::from_fn(|district| texts.at(district)),
                ytd: 0,
                orders: 0,
                remote: 0,
                data: texts.at(10),
            }))?;
        }
        Ok(())
    }

    fn customers(&self, (warehouse, district): (i32, i32), texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::Customer, warehouse, district);
        for id in 1..=self.scale.customers {
            texts.clear();
            let names = self.scale.last_names();
            let name = if id <= names { id - 1 } else { random::last_name_loaded(&mut draw, names) };
            texts.text(&random::last_name(name));
            texts.letters(&mut draw, 8, 16);
            texts.address(&mut draw);
            texts.digits(&mut draw, 16, "");
            texts.letters(&mut draw, 300, 500);
            take(&Record::Customer(Customer {
                warehouse,
                district,
                id,
                first: texts.at(1),
                middle: "OE",
                last: texts.at(0),
                address: address(texts, 2),
                phone: texts.at(7),
                since: LOADED_AT,
                credit: if one_in(&mut draw, 10) { "BC" } else { "GC" },
                credit_limit: 5_000_000,
                discount: i64::from(uniform(&mut draw, 0, 5_000)),
                balance: -1_000,
                ytd_payment: 1_000,
                payments: 1,
                deliveries: 0,
                data: texts.at(8),
            }))?;
        }
        Ok(())
    }

    fn history(&self, (warehouse, district): (i32, i32), texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::History, warehouse, district);
        for customer in 1..=self.scale.customers {
            texts.clear();
            texts.letters(&mut draw, 12, 24);
            take(&Record::History(History {
                customer,
                customer_district: district,
                customer_warehouse: warehouse,
                district,
                warehouse,
                date: LOADED_AT,
                amount: 1_000,
                data: texts.at(0),
            }))?;
        }
        Ok(())
    }

    /// The orders of a district: one of each customer, in an order of its own.
    fn orders(&self, (warehouse, district): (i32, i32)) -> Vec<Order> {
        let mut draw = self.draw(Table::Order, warehouse, district);
        let mut customers: Vec<i32> = (1..=self.scale.customers).collect();
        for place in (1..customers.len()).rev() {
            customers.swap(place, draw.below(place as u64 + 1) as usize);
        }
        let is_delivered = |id: i32| id < self.scale.first_new_order();
        let order = |(customer, id): (i32, i32)| Order {
            warehouse,
            district,
            id,
            customer,
            entered: LOADED_AT,
            carrier: is_delivered(id).then(|| uniform(&mut draw, 1, 10)),
            lines: uniform(&mut draw, 5, 15),
            is_local: true,
        };
        customers.into_iter().zip(1..).map(order).collect()
    }

    fn order_lines(&self, (warehouse, district): (i32, i32), texts: &mut Texts, take: Take<'_>) -> Result<()> {
        let mut draw = self.draw(Table::OrderLine, warehouse, district);
        for order in self.orders((warehouse, district)) {
            for number in 1..=order.lines {
                texts.clear();
                texts.letters(&mut draw, 24, 24);
                let is_delivered = order.carrier.is_some();
                take(&Record::OrderLine(OrderLine {
                    warehouse,
                    district,
                    order: order.id,
                    number,
                    item: uniform(&mut draw, 1, self.scale.items),
                    supply_warehouse: warehouse,
                    delivered: is_delivered.then_some(order.entered),
                    quantity: 5,
                    amount: if is_delivered { 0 } else { i64::from(uniform(&mut draw, 1, 999_999)) },
                    district_info: texts.at(0),
                }))?;
            }
        }
        Ok(())
    }
}

/// The address in the texts from number `at` on.
fn address(texts: &Texts, at: usize) -> Address<'_> {
    Address::of(std::array::from_fn(|part| texts.at(at + part)))
}
