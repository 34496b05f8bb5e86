local through_by = ((obj.metadata or {}).annotations or {})["gpu-operator-post/through-by"]
local status = obj.status or {}
local health = status.health or {}
local result = {status = health.status or "Progressing", message = health.message or ""}
if through_by == nil then
  return result
end

-- An Application of the bundle is complete when Argo CD has synced its current source.
local function same(left, right)
  if type(left) ~= "table" or type(right) ~= "table" then
    return left == right
  end
  for key, value in pairs(left) do
    if not same(value, right[key]) then
      return false
    end
  end
  for key in pairs(right) do
    if left[key] == nil then
      return false
    end
  end
  return true
end

local operation = status.operationState or {}
local sync = status.sync or {}
local source = (obj.spec or {}).source
local attempted = same((operation.syncResult or {}).source, source)
local unchanged = sync.status == "Synced" and same((sync.comparedTo or {}).source, source)
if obj.operation ~= nil or operation.phase == "Running" or operation.phase == "Terminating" then
  return {status = "Progressing", message = operation.message or "an operation is in progress"}
end
if attempted and (operation.phase == "Failed" or operation.phase == "Error") then
  return {status = "Degraded", message = operation.message or "the last operation failed"}
end
if not (attempted and operation.phase == "Succeeded") and not unchanged then
  return {status = "Progressing", message = "the current source is not synced yet"}
end
if through_by == "operation" then
  return {status = "Healthy", message = operation.message or ""}
end
return result
